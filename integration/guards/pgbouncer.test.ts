// D11: behind PgBouncer in transaction mode, where each transaction may run on another server connection. What
// the guard takes ends with its transaction, so it works there, and leaves nothing locked.
import { FencingToken } from '@lockkeeper/fencing';
import { describeGuard } from '@lockkeeper/resource-guard/contract';
import { type PostgresGuard, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import {
  type PgBouncerServer,
  type PostgresServer,
  startPgBouncer,
  startPostgres,
} from '@lockkeeper/testkit';
import type pg from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accountAccess, Bank } from './account.ts';

let server: PostgresServer;
let bouncer: PgBouncerServer;
let bank: Bank;
/** Each with more client connections than there are connections to the server. */
let pools: [pg.Pool, pg.Pool];
let sqls: [postgres.Sql, postgres.Sql];

beforeAll(async () => {
  server = await startPostgres({ own: true });
  // A case of the contract has a holder, two writers and a claim in transactions at once.
  bouncer = await startPgBouncer({ postgres: server, settings: { default_pool_size: '4' } });
  bank = await Bank.open(server.url);
  pools = [0, 1].map(() => bank.newPool({ connectionString: bouncer.url })) as typeof pools;
  // Before its version 1.21 PgBouncer keeps no track of named statements in this mode, so the driver must not make any.
  sqls = [0, 1].map(() => postgres(bouncer.url, { max: 6, prepare: false })) as typeof sqls;
});
afterAll(async () => {
  await Promise.all(sqls?.map((sql) => sql.end({ timeout: 1 })) ?? []);
  await bank?.[Symbol.asyncDispose]();
  await bouncer?.stop();
  await server?.stop();
});

/** Once all transactions are over, no server connection holds an advisory lock. */
async function expectNothingLocked(): Promise<void> {
  const open = "state <> 'idle' AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
  await bank.until(`SELECT WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE ${open})`, []);
  const { rows } = await bank.pool.query("SELECT * FROM pg_locks WHERE locktype = 'advisory'");
  expect(rows).toEqual([]);
}

describe('behind PgBouncer in transaction mode', () => {
  describeGuard(
    {
      name: 'pg behind PgBouncer',
      open: async () => {
        const resource = await bank.newAccount();
        const [guard, other] = pools.map((pool) => postgresGuard(pool, { resource })) as [Guard, Guard];
        return bank.fixture(resource, { guard, other }, accountAccess(resource), async () => {});
      },
    },
    { describe, it },
  );

  describeGuard(
    {
      name: 'postgres.js behind PgBouncer',
      open: async () => {
        const resource = await bank.newAccount();
        const [guard, other] = sqls.map((sql) => postgresGuard(sql, { resource })) as [JsGuard, JsGuard];
        const access = {
          read: async (sql: postgres.TransactionSql) =>
            (await sql`SELECT value FROM account WHERE name = ${resource}`)[0]?.['value'] as string,
          write: async (sql: postgres.TransactionSql, value: string) => {
            await sql`UPDATE account SET value = ${value} WHERE name = ${resource}`;
          },
        };
        return bank.fixture(resource, { guard, other }, access, async () => {});
      },
    },
    { describe, it },
  );

  it('leaves no advisory lock after all of that', expectNothingLocked);

  it('runs more transactions at once than it has connections', async () => {
    const name = await bank.newAccount();
    const [guard, other] = pools.map((pool) => postgresGuard(pool, { resource: name })) as [Guard, Guard];
    await guard.claim(token(1n));
    const add = 'UPDATE account SET value = value || $1 WHERE name = $2';
    const writes = Array.from({ length: 40 }, (_, at) =>
      at % 2 === 0
        ? guard.query(token(1n), add, ['q', name])
        : other.run(token(1n), (tx) => tx.query(add, ['r', name])),
    );
    await Promise.all(writes);
    expect([...(await bank.peek(name))].sort().join('')).toBe('q'.repeat(20) + 'r'.repeat(20));
    await other.claim(token(2n));
    await expect(guard.query(token(1n), add, ['late', name])).rejects.toMatchObject({ code: 'stale-token' });
    await expect(guard.run(token(1n), () => 0)).rejects.toMatchObject({ code: 'stale-token' });
    expect(await bank.peek(name)).not.toContain('late');
    await expectNothingLocked();
  });

  it.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])(
    "guards a transaction of the caller's own in %s",
    async (level) => {
      const name = await bank.newAccount();
      const [guard, other] = pools.map((pool) => postgresGuard(pool, { resource: name })) as [Guard, Guard];
      await guard.claim(token(1n));
      const tx = await pools[0].connect();
      try {
        await tx.query(`BEGIN ISOLATION LEVEL ${level}`);
        await guard.enter(tx, token(1n));
        const { rows } = await tx.query('SELECT pg_backend_pid() AS pid');
        let claimed = false;
        const claim = other.claim(token(2n)).then(() => {
          claimed = true;
        });
        await bank.blockedBy(rows[0].pid);
        await tx.query("UPDATE account SET value = 'old' WHERE name = $1", [name]);
        expect(claimed).toBe(false);
        await tx.query('COMMIT');
        await claim;

        await tx.query(`BEGIN ISOLATION LEVEL ${level}`);
        await expect(guard.enter(tx, token(1n))).rejects.toMatchObject({ code: 'stale-token' });
        await tx.query('ROLLBACK');
      } finally {
        tx.release();
      }
      expect(await bank.peek(name)).toBe('old');
      await expectNothingLocked();
    },
  );
});

describe('a pool of one connection', () => {
  it('serves first runs, claims, queries and seals one after another', async () => {
    const name = await bank.newAccount();
    const guard = postgresGuard(bank.newPool({ max: 1 }), { resource: name });
    const add = 'UPDATE account SET value = value || $1 WHERE name = $2';
    await guard.run(token(1n), (tx) => tx.query(add, ['a', name]));
    await guard.query(token(2n), add, ['b', name]);
    const calls = [guard.run(token(2n), (tx) => tx.query(add, ['c', name])), guard.claim(token(2n))];
    await Promise.all([...calls, guard.query(token(2n), add, ['d', name])]);
    const inside = guard.run(token(2n), () => guard.claim(token(3n)));
    await expect(inside).rejects.toMatchObject({ code: 'invalid-option' });
    await guard.seal(token(2n));
    await expect(guard.run(token(2n), () => 0)).rejects.toMatchObject({ code: 'sealed' });
    expect(await bank.peek(name)).toMatch(/^ab(cd|dc)$/);
  });
});

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
type Guard = PostgresGuard;
type JsGuard = PostgresGuard<postgres.TransactionSql>;
