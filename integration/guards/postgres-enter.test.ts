// D9: the check and the write race with a new owner, inside transactions of the caller's own, in every
// isolation level that PostgreSQL has.
import { FencingToken, GuardError } from '@lockkeeper/fencing';
import { type PostgresGuard, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Bank } from './account.ts';

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

let resource: string;
let guard: PostgresGuard;
/** The caller's own connection. */
let tx: pg.PoolClient;

beforeEach(async () => {
  resource = await bank.newAccount();
  guard = postgresGuard(bank.pool, { resource, idleInTransactionTimeoutMs: 20_000 });
  tx = await bank.pool.connect();
});
afterEach(async () => {
  await tx.query('ROLLBACK');
  tx.release();
});

async function pidOf(client: pg.PoolClient): Promise<number> {
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  return rows[0].pid;
}

const write = (value: string) => tx.query('UPDATE account SET value = $2 WHERE name = $1', [resource, value]);
const insert = (value: string) =>
  tx.query('INSERT INTO account VALUES ($1, $2)', [`${resource}, not there yet`, value]);

describe.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])(
  'entering a transaction in %s',
  (level) => {
    const begin = `BEGIN ISOLATION LEVEL ${level}`;
    const hasSnapshot = level !== 'READ COMMITTED';

    it('lets the holder write, and holds off a new claim until COMMIT', async () => {
      await guard.claim(OLD);
      await tx.query(begin);
      await guard.enter(tx, OLD);
      const pid = await pidOf(tx);
      let claimed = false;
      const claim = guard.claim(NEW).then(() => {
        claimed = true;
      });
      await bank.blockedBy(pid);
      await write('old');
      expect(claimed).toBe(false);
      await tx.query('COMMIT');
      await claim;
      expect(await guard.run(NEW, () => bank.peek(resource))).toBe('old');
    });

    it('undoes everything when the caller rolls back, and lets the new owner go on', async () => {
      await guard.claim(OLD);
      await tx.query(begin);
      await guard.enter(tx, OLD);
      await write('old');
      const pid = await pidOf(tx);
      const claim = guard.claim(NEW);
      await bank.blockedBy(pid);
      await tx.query('ROLLBACK');
      await claim;
      expect(await bank.peek(resource)).toBe('');
    });

    it('refuses an owner that was superseded before it entered', async () => {
      await guard.claim(OLD);
      await guard.claim(NEW);
      await tx.query(begin);
      await expect(guard.enter(tx, OLD)).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    });

    it('refuses an owner that was superseded after its transaction began to read', async () => {
      await guard.claim(OLD);
      await tx.query(begin);
      await tx.query('SELECT value FROM account WHERE name = $1', [resource]);
      await guard.claim(NEW);
      const code = hasSnapshot ? 'retry' : 'stale-token';
      await expect(guard.enter(tx, OLD)).rejects.toMatchObject({ code });
      await tx.query('ROLLBACK');
      await tx.query(begin);
      await expect(guard.enter(tx, OLD)).rejects.toMatchObject({ code: 'stale-token' });
    });

    it('refuses an owner that entered while the new claim was pending', async () => {
      await guard.claim(OLD);
      const older = await bank.pool.connect();
      await older.query(begin);
      await guard.enter(older, OLD);
      const claim = guard.claim(NEW);
      await bank.blockedBy(await pidOf(older));
      await tx.query(begin);
      const entering = guard.enter(tx, OLD).then(
        () => 'entered',
        (error: GuardError) => error.code,
      );
      // It waits behind the claim by now, with a snapshot from before the claim where its level takes one.
      const waiting = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ShareLock'
      AND objid = (SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = $1 LIMIT 1)`;
      await bank.until(waiting, [await pidOf(older)]);
      await older.query('COMMIT');
      older.release();
      await claim;
      expect(await entering).toBe(hasSnapshot ? 'retry' : 'stale-token');
    });

    it('refuses to read data from before the own claim', async () => {
      await guard.claim(OLD);
      await tx.query(begin);
      await tx.query('SELECT value FROM account WHERE name = $1', [resource]);
      await guard.claim(NEW);
      const entering = guard.enter(tx, NEW);
      if (hasSnapshot) await expect(entering).rejects.toMatchObject({ code: 'retry', outcome: 'retry' });
      else await entering;
    });

    it('tells a guard without a row from a token that does not match', async () => {
      await tx.query(begin);
      await expect(guard.enter(tx, OLD)).rejects.toMatchObject({ code: 'unclaimed', current: undefined });
      await tx.query('ROLLBACK');
      await guard.claim(NEW);
      await tx.query(begin);
      await expect(guard.enter(tx, token(3n))).rejects.toMatchObject({ code: 'unclaimed', current: NEW });
      await expect(guard.enter(tx, OLD)).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    });

    it('guards a row that is not there yet', async () => {
      await guard.claim(OLD);
      await tx.query(begin);
      await guard.enter(tx, OLD);
      const pid = await pidOf(tx);
      const claim = guard.claim(NEW);
      await bank.blockedBy(pid);
      await insert('old');
      await tx.query('COMMIT');
      await claim;
      const seen = await guard.run(NEW, () => bank.peek(`${resource}, not there yet`));
      expect(seen).toBe('old');
      await tx.query(begin);
      await expect(guard.enter(tx, OLD)).rejects.toMatchObject({ code: 'stale-token' });
    });

    it('a caller that freezes after entering is ended, and its write fails', async () => {
      const hasty = postgresGuard(bank.pool, { resource, idleInTransactionTimeoutMs: 2_000 });
      await guard.claim(OLD);
      const frozen = bank.newClient();
      await frozen.connect();
      await frozen.query(begin);
      await hasty.enter(frozen, OLD);
      await guard.claim(NEW);
      const late = frozen.query("UPDATE account SET value = 'late' WHERE name = $1", [resource]);
      await expect(late).rejects.toThrow();
      expect(await bank.peek(resource)).toBe('');
    });
  },
);

describe('entering', () => {
  it('without an open transaction is refused: the lock would be gone at once', async () => {
    await guard.claim(OLD);
    await expect(guard.enter(tx, OLD)).rejects.toMatchObject({ code: 'invalid-option', message: /BEGIN/ });
    await expect(guard.enter(bank.pool, OLD)).rejects.toMatchObject({
      code: 'invalid-option',
      message: /BEGIN/,
    });
  });

  it('keeps the timeout of a caller who set one', async () => {
    await guard.claim(OLD);
    const idle = async () =>
      (await tx.query("SELECT current_setting('idle_in_transaction_session_timeout') AS idle")).rows;
    await tx.query('BEGIN');
    await guard.enter(tx, OLD);
    expect(await idle()).toEqual([{ idle: '20s' }]);
    await tx.query("ROLLBACK; BEGIN; SET LOCAL idle_in_transaction_session_timeout = '9s'");
    await guard.enter(tx, OLD);
    expect(await idle()).toEqual([{ idle: '9s' }]);
  });

  it('works through an adapter that gives rows instead of a result', async () => {
    await guard.claim(OLD);
    await tx.query('BEGIN');
    await guard.enter({ query: async (text) => (await tx.query(text)).rows }, OLD);
  });

  it.each([undefined, {}, { query: 'SELECT 1' }])('refuses %j as a transaction', async (wrong) => {
    const entering = guard.enter(wrong as never, OLD);
    await expect(entering).rejects.toBeInstanceOf(GuardError);
    await expect(entering).rejects.toMatchObject({ code: 'invalid-option', message: /^tx is / });
  });
});

describe('a run paused between its check and its write', () => {
  it.each([
    ['a guard that nobody used yet', false],
    ['a guard that was claimed before', true],
  ])('comes before the new owner or not at all: %s', async (_, claimedBefore) => {
    if (claimedBefore) await guard.claim(OLD);
    const elsewhere = postgresGuard(bank.newPool(), { resource });
    const absent = `${resource}, not there yet`;
    let claim: Promise<void> | undefined;
    await guard.run(OLD, async (handle) => {
      const { rows } = await handle.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      claim = elsewhere.claim(NEW);
      await bank.blockedBy(rows[0]?.pid ?? 0);
      await handle.query('INSERT INTO account VALUES ($1, $2)', [absent, 'old']);
    });
    await claim;
    const insertAgain = guard.run(OLD, (handle) =>
      handle.query("UPDATE account SET value = 'late' WHERE name = $1", [absent]),
    );
    await expect(insertAgain).rejects.toMatchObject({ code: 'stale-token' });
    expect(await bank.peek(absent)).toBe('old');
  });
});
