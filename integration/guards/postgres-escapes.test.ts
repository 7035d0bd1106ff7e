// An effect that leaves the guarded transaction, by accident or not: what it writes afterwards is never
// applied and called a success.
import { FencingToken } from '@lockkeeper/fencing';
import {
  type PostgresGuard,
  type PostgresTransaction,
  postgresGuard,
} from '@lockkeeper/resource-guard/postgres';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { accountAccess, Bank } from './account.ts';

let server: PostgresServer;
let bank: Bank;

beforeAll(async () => {
  server = await startPostgres();
  bank = await Bank.open(server.url);
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await server?.stop();
});

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

let account: string;
let guard: PostgresGuard;
let write: (tx: PostgresTransaction, value: string) => Promise<void>;

beforeEach(async () => {
  account = await bank.newAccount();
  guard = postgresGuard(bank.pool, { resource: account });
  write = accountAccess(account).write;
  await guard.claim(OLD);
});

/**
 * A run of OLD that does `leave` and, after a newer holder has written, writes again and then does `finish`.
 * Resolves with how the run ended, and with the account.
 */
async function lateWriteAfter(
  through: PostgresGuard,
  leave: (tx: PostgresTransaction) => Promise<unknown>,
  finish: (tx: PostgresTransaction) => Promise<unknown> = async () => undefined,
): Promise<{ readonly ending: unknown; readonly value: string }> {
  let escaped: () => void = () => {};
  const atLarge = new Promise<void>((resolve) => (escaped = resolve));
  let goOn: () => void = () => {};
  const overtaken = new Promise<void>((resolve) => (goOn = resolve));
  const old = through
    .run(OLD, async (tx) => {
      await leave(tx);
      escaped();
      await overtaken;
      await write(tx, 'late').catch(() => undefined);
      await finish(tx).catch(() => undefined);
      return 'done';
    })
    .catch((error: unknown) => error);
  await atLarge;
  await guard.claim(NEW);
  await guard.run(NEW, (tx) => write(tx, 'new'));
  goOn();
  return { ending: await old, value: await bank.peek(account) };
}

const ENDED = {
  code: 'unknown',
  outcome: 'unknown',
  message: expect.stringMatching(/ended (the|its) transaction/),
};

describe('an effect that ends its transaction', () => {
  it.each([
    [['COMMIT AND CHAIN']],
    [['ROLLBACK AND CHAIN']],
    [['END AND CHAIN']],
    [['ABORT AND CHAIN']],
    [['COMMIT', 'BEGIN']],
    [['ROLLBACK', 'BEGIN']],
    [['SAVEPOINT a', 'ROLLBACK TO SAVEPOINT a', 'ROLLBACK AND CHAIN']],
    [['ROLLBACK AND CHAIN', 'COMMIT AND CHAIN']],
  ])(
    'by %j is told so, and its late write is not applied, not even by its own COMMIT',
    async (statements) => {
      const leave = async (tx: PostgresTransaction) => {
        for (const statement of statements) await tx.query(statement).catch(() => undefined);
      };
      const { ending, value } = await lateWriteAfter(guard, leave, (tx) => tx.query('COMMIT AND CHAIN'));
      expect(value).toBe('new');
      expect(ending).toMatchObject(ENDED);
    },
  );

  it.each(['COMMIT; BEGIN', 'ROLLBACK; BEGIN', 'COMMIT; SELECT 1'])(
    'inside one message, %s, is refused: each query is one statement',
    async (message) => {
      let refused: unknown;
      const { ending, value } = await lateWriteAfter(guard, async (tx) => {
        await tx.query(message).catch((error: unknown) => (refused = error));
      });
      expect(value).toBe('new');
      expect(refused).toMatchObject({ code: '42601', message: expect.stringContaining('multiple commands') });
      expect(ending).toMatchObject({ code: 'unavailable', outcome: 'failed', cause: refused });
    },
  );

  it.each(['COMMIT AND CHAIN', 'ROLLBACK AND CHAIN', 'COMMIT; BEGIN', 'ROLLBACK; BEGIN', 'RESET ALL'])(
    'behind the back of the guard, by %s, cannot commit: the check and COMMIT are one message',
    async (message) => {
      const client = bank.newClient();
      await client.connect();
      try {
        const onClient = postgresGuard(client, { resource: account });
        const leave = () => client.query(message);
        if (message === 'RESET ALL') {
          const run = onClient.run(OLD, async (tx) => {
            await leave();
            await write(tx, 'late');
          });
          await expect(run).rejects.toMatchObject(ENDED);
          expect(await bank.peek(account)).toBe('');
        } else {
          const { ending, value } = await lateWriteAfter(onClient, leave);
          expect(value).toBe('new');
          expect(ending).toMatchObject(ENDED);
        }
        // Nothing is left open on the connection.
        await onClient.claim(NEW);
        expect(await onClient.run(NEW, () => 'next')).toBe('next');
      } finally {
        await client.end();
      }
    },
  );

  it.each(['COMMIT', "PREPARE TRANSACTION 'not enabled'"])(
    'by a %s that fails is told so, and its late write is not applied',
    async (failing) => {
      await bank.pool.query(
        'CREATE TABLE IF NOT EXISTS later (id int PRIMARY KEY REFERENCES later (id) DEFERRABLE INITIALLY DEFERRED, other int REFERENCES later (id) DEFERRABLE INITIALLY DEFERRED)',
      );
      const { ending, value } = await lateWriteAfter(guard, async (tx) => {
        if (failing === 'COMMIT') await tx.query('INSERT INTO later VALUES (1, 2)');
        await tx.query(failing).catch(() => undefined);
      });
      expect(value).toBe('new');
      expect(ending).toMatchObject(ENDED);
    },
  );

  it('is unknown also where a statement had failed before, or the effect fails after', async () => {
    const run = guard.run(OLD, async (tx) => {
      await tx.query('SAVEPOINT a');
      await tx.query('SELECT 1 / 0').catch(() => undefined);
      await tx.query('ROLLBACK TO SAVEPOINT a');
      await write(tx, 'early');
      await tx.query('COMMIT').catch(() => undefined);
    });
    await expect(run).rejects.toMatchObject(ENDED);
    expect(await bank.peek(account)).toBe('early');
    const cause = new Error('of the effect');
    const failed = guard.run(OLD, async (tx) => {
      await write(tx, 'second');
      await tx.query('COMMIT').catch(() => undefined);
      throw cause;
    });
    await expect(failed).rejects.toMatchObject({ ...ENDED, cause });
    expect(await bank.peek(account)).toBe('second');
  });

  it('keeps what it had committed itself: that was still guarded', async () => {
    const run = guard.run(OLD, async (tx) => {
      await write(tx, 'early');
      await tx.query('COMMIT AND CHAIN');
    });
    await expect(run).rejects.toMatchObject(ENDED);
    expect(await bank.peek(account)).toBe('early');
  });

  it('by PREPARE TRANSACTION keeps its lock until that is settled', async () => {
    await using own = await startPostgres({ settings: { max_prepared_transactions: '1' } });
    await using elsewhere = await Bank.open(own.url);
    const name = await elsewhere.newAccount();
    const pool = elsewhere.newPool();
    const preparing = postgresGuard(pool, { resource: name, claimTimeoutMs: 100 });
    const run = preparing.run(OLD, async (tx) => {
      await accountAccess(name).write(tx, 'prepared');
      await tx.query("PREPARE TRANSACTION 'left behind'").catch(() => undefined);
      await accountAccess(name).write(tx, 'late');
    });
    await expect(run).rejects.toMatchObject({ ...ENDED, cause: { code: 'unavailable', message: /is over/ } });
    await expect(preparing.claim(NEW)).rejects.toMatchObject({ code: 'timeout' });
    await elsewhere.pool.query("COMMIT PREPARED 'left behind'");
    await preparing.claim(NEW);
    expect(await elsewhere.peek(name)).toBe('prepared');
  });

  it('is not suspected for savepoints, prepared statements or settings of its own', async () => {
    await guard.run(OLD, async (tx) => {
      for (const statement of [
        'SAVEPOINT a',
        'SAVEPOINT b',
        'ROLLBACK TO SAVEPOINT b',
        'RELEASE SAVEPOINT b',
        'ROLLBACK TO SAVEPOINT a',
        "SET LOCAL statement_timeout = '20s'",
        'PREPARE seven AS SELECT 7',
        'EXECUTE seven',
        'DEALLOCATE seven',
        'SELECT pg_advisory_unlock_all();',
      ])
        await tx.query(statement);
      await write(tx, 'kept');
    });
    expect(await bank.peek(account)).toBe('kept');
  });

  it('cannot give up the lock of its run while the transaction lasts', async () => {
    let claimed = false;
    let claim: Promise<void> | undefined;
    await guard.run(OLD, async (tx) => {
      await tx.query('SELECT pg_advisory_unlock_all()');
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      claim = postgresGuard(bank.newPool(), { resource: account })
        .claim(NEW)
        .then(() => {
          claimed = true;
        });
      await bank.blockedBy(rows[0]?.pid ?? 0);
      expect(claimed).toBe(false);
    });
    await claim;
  });
});

describe('a query of an effect', () => {
  it('may be any config object that the driver takes, and is left as it is', async () => {
    class Statement {
      values = ['7'];
      get text() {
        return 'SELECT $1::int AS n';
      }
    }
    const frozen = Object.freeze({ text: 'SELECT $1::text AS t', rowMode: 'array' });
    const results = await guard.run(OLD, async (tx) => [
      (await tx.query(new Statement())).rows,
      (await tx.query(frozen, ['x'])).rows,
      (await tx.query('SELECT 1 AS one', [])).rows,
    ]);
    expect(results).toEqual([[{ n: 7 }], [['x']], [{ one: 1 }]]);
    expect(frozen).toEqual({ text: 'SELECT $1::text AS t', rowMode: 'array' });
  });
});
