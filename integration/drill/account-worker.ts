// An application's own module, as a user would drill it: one update of an account in PostgreSQL under a lock.
import { connect } from '@lockkeeper/core';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import type { DrillContext } from '@lockkeeper/testkit/worker';
import { Pool } from 'pg';

export async function run({ update, keeper: options, resourceUrl, data, pausePoint }: DrillContext) {
  const pool = new Pool({ connectionString: resourceUrl });
  // A proxy that the drill closes breaks idle connections.
  pool.on('error', () => {});
  await using keeper = await connect(options);
  try {
    const guard = postgresGuard(pool, { resource: 'account', idleInTransactionTimeoutMs: 3_000 });
    await keeper.lock('account').using({ claims: [guard] }, async (hold) => {
      const { rows } = await pool.query('SELECT entries FROM account');
      const entries = `${rows[0].entries}${update} `;
      await pausePoint('after the read');
      if (data === 'guarded') {
        await guard.run(hold.token, async (tx) => {
          await pausePoint('inside the transaction');
          await tx.query('UPDATE account SET entries = $1', [entries]);
        });
      } else await pool.query('UPDATE account SET entries = $1', [entries]);
      await pausePoint('after the write');
    });
  } finally {
    await pool.end();
  }
}
