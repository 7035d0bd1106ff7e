// The three outcomes on PostgreSQL, D6: applied, certainly not applied, unknown. Unknown is never called stale.
import { FencingToken } from '@lockkeeper/fencing';
import { type PostgresGuard, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import {
  chunkContaining,
  type PostgresServer,
  startPostgres,
  startTcpProxy,
  type TcpProxy,
} from '@lockkeeper/testkit';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { accountAccess, Bank } from './account.ts';

let server: PostgresServer;
let bank: Bank;
let proxy: TcpProxy;
let proxied: pg.Pool;

beforeAll(async () => {
  server = await startPostgres();
  bank = await Bank.open(server.url);
  proxy = await startTcpProxy(server.url);
  proxied = bank.newPool({ connectionString: proxy.url });
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await proxy?.[Symbol.asyncDispose]();
  await server?.stop();
});

/**
 * The next message that contains `text` is the last on its connection. `drop-reply`: the server gets it, the
 * client gets the end of the connection instead of the reply. `drop-request`: the server does not get it.
 */
function lose(text: string, kind: 'drop-reply' | 'drop-request'): void {
  const match = chunkContaining(text);
  const caught =
    kind === 'drop-reply'
      ? proxy.loseReply({ match }).lost
      : proxy.hold({ direction: 'request', match }).held;
  void caught.then(() => proxy.cut());
}

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

/** The end of a message of the simple protocol, which READ COMMITTED is not. */
const COMMIT = 'COMMIT\0';

let account: string;
/** Through the proxy. */
let guard: PostgresGuard;
/** Past it. */
let direct: PostgresGuard;
let append: (guard: PostgresGuard, token: FencingToken, entry: string) => Promise<void>;

beforeEach(async () => {
  account = await bank.newAccount();
  guard = postgresGuard(proxied, { resource: account });
  direct = postgresGuard(bank.pool, { resource: account });
  const { read, write } = accountAccess(account);
  append = (through, as, entry) => through.run(as, async (tx) => write(tx, `${await read(tx)}${entry}`));
});

describe('a lost COMMIT', () => {
  it('is unknown where the reply was lost, although it was applied, and applied once', async () => {
    await guard.claim(OLD);
    lose(COMMIT, 'drop-reply');
    await expect(append(guard, OLD, 'x')).rejects.toMatchObject({
      code: 'unknown',
      outcome: 'unknown',
      token: OLD,
    });
    expect(await bank.peek(account)).toBe('x');
    await append(guard, OLD, 'y');
    expect(await bank.peek(account)).toBe('xy');
  });

  it('is unknown where it never arrived, although nothing was applied', async () => {
    await guard.claim(OLD);
    lose(COMMIT, 'drop-request');
    await expect(append(guard, OLD, 'x')).rejects.toMatchObject({ code: 'unknown', outcome: 'unknown' });
    // The next claim waits for the abandoned transaction, so the answer after it is final.
    await direct.claim(NEW);
    expect(await bank.peek(account)).toBe('');
  });

  it('of a claim is unknown; claiming again with the same token settles it', async () => {
    for (const kind of ['drop-reply', 'drop-request'] as const) {
      await direct.claim(OLD);
      lose(COMMIT, kind);
      await expect(guard.claim(NEW)).rejects.toMatchObject({ code: 'unknown' });
      await guard.claim(NEW);
      await expect(direct.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
      account = await bank.newAccount();
      guard = postgresGuard(proxied, { resource: account });
      direct = postgresGuard(bank.pool, { resource: account });
    }
  });

  it('of the claim that a first run makes leaves the effect certainly unapplied', async () => {
    let effects = 0;
    lose(COMMIT, 'drop-reply');
    const run = guard.run(OLD, () => {
      effects += 1;
    });
    await expect(run).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    expect(effects).toBe(0);
  });
});

describe('a connection lost before COMMIT', () => {
  it('means not applied: ended by the server between two statements', async () => {
    await direct.claim(OLD);
    const run = guard.run(OLD, async (tx) => {
      await accountAccess(account).write(tx, 'x');
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      await bank.pool.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
      await accountAccess(account).write(tx, 'y');
    });
    await expect(run).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    expect(await bank.peek(account)).toBe('');
    await append(guard, OLD, 'y');
    expect(await bank.peek(account)).toBe('y');
  });

  it.each(['drop-reply', 'drop-request'] as const)('means not applied: cut at a write (%s)', async (kind) => {
    await direct.claim(OLD);
    lose('UPDATE account', kind);
    await expect(append(guard, OLD, 'x')).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    await direct.claim(NEW);
    expect(await bank.peek(account)).toBe('');
  });

  it('means not applied also where the effect goes on regardless', async () => {
    await direct.claim(OLD);
    lose('UPDATE account', 'drop-request');
    const run = guard.run(OLD, async (tx) => {
      await accountAccess(account)
        .write(tx, 'x')
        .catch(() => undefined);
      return 'done';
    });
    await expect(run).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is unavailable where no connection can be had', async () => {
    const nowhere = bank.newPool({ connectionString: 'postgres://nobody@127.0.0.1:1/none' });
    const unreachable = postgresGuard(nowhere, { resource: account });
    await expect(unreachable.claim(OLD)).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
  });
});

describe('what PostgreSQL refuses', () => {
  it('is retry at a deadlock, with nothing applied', async () => {
    const other = await bank.newAccount();
    await direct.claim(OLD);
    const lock = 'UPDATE account SET value = $2 WHERE name = $1';
    let arrived = 0;
    let bothHere: () => void = () => {};
    const both = new Promise<void>((resolve) => (bothHere = resolve));
    const crossing = (first: string, second: string) =>
      direct.run(OLD, async (tx) => {
        await tx.query(lock, [first, 'x']);
        arrived += 1;
        if (arrived === 2) bothHere();
        await both;
        await tx.query(lock, [second, 'x']);
      });
    const endings = await Promise.allSettled([crossing(account, other), crossing(other, account)]);
    const reasons = endings.flatMap((ending) => (ending.status === 'rejected' ? [ending.reason] : []));
    expect(reasons).toMatchObject([{ code: 'retry', outcome: 'retry', cause: { code: '40P01' } }]);
    expect([await bank.peek(account), await bank.peek(other)]).toEqual(['x', 'x']);
  });

  it("comes to the effect as pg's own error, and out again untouched", async () => {
    let seen: unknown;
    const run = direct.run(OLD, async (tx) => {
      await tx.query('SELECT 1 / 0').catch((error: unknown) => {
        seen = error;
        throw error;
      });
    });
    const error = await run.catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: '22012' });
    expect(error).toBe(seen);
  });

  it("comes as the driver's own error where the driver refuses the call, and the connection lives on", async () => {
    const pool = bank.newPool({ max: 1 });
    const lasting = postgresGuard(pool, { resource: account });
    const pid = () => lasting.run(OLD, async (tx) => (await tx.query('SELECT pg_backend_pid()')).rows);
    const before = await pid();
    const wrong = lasting.run(OLD, (tx) => tx.query('SELECT $1', 'no array' as never));
    await expect(wrong).rejects.toMatchObject({ message: 'Query values must be an array' });
    expect(await pid()).toEqual(before);
  });

  it('is not success where the effect swallows it', async () => {
    const run = direct.run(OLD, async (tx) => {
      await accountAccess(account).write(tx, 'x');
      await tx.query('SELECT 1 / 0').catch(() => undefined);
      return 'done';
    });
    await expect(run).rejects.toMatchObject({
      code: 'unavailable',
      outcome: 'failed',
      cause: { code: '22012' },
    });
    expect(await bank.peek(account)).toBe('');
  });

  it('may be survived by a savepoint of the effect', async () => {
    await direct.run(OLD, async (tx) => {
      await accountAccess(account).write(tx, 'x');
      await tx.query('SAVEPOINT attempt');
      await tx.query('SELECT 1 / 0').catch(() => undefined);
      await tx.query('ROLLBACK TO SAVEPOINT attempt');
    });
    expect(await bank.peek(account)).toBe('x');
  });

  it('at COMMIT, by a deferred constraint, is a definite refusal', async () => {
    await bank.pool.query(
      'DROP TABLE IF EXISTS deferred; CREATE TABLE deferred (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)',
    );
    const run = direct.run(OLD, (tx) => tx.query('INSERT INTO deferred VALUES (1), (1)'));
    await expect(run).rejects.toMatchObject({
      code: 'unavailable',
      outcome: 'failed',
      cause: { code: '23505' },
    });
    await direct.run(OLD, (tx) => tx.query('INSERT INTO deferred VALUES (2)'));
  });
});

describe('limits', () => {
  it('a claim gives up after claimTimeoutMs, and the run in flight is not disturbed', async () => {
    const hasty = postgresGuard(bank.newPool(), { resource: account, claimTimeoutMs: 100 });
    await direct.claim(OLD);
    await direct.run(OLD, async (tx) => {
      await expect(hasty.claim(NEW)).rejects.toMatchObject({ code: 'timeout', outcome: 'failed' });
      await accountAccess(account).write(tx, 'kept');
    });
    expect(await bank.peek(account)).toBe('kept');
    await hasty.claim(NEW);
  });

  it('a run gives up its wait behind a claim after statementTimeoutMs', async () => {
    const [pool, another] = [bank.newPool(), bank.newPool()];
    const hasty = postgresGuard(pool, { resource: account, statementTimeoutMs: 100 });
    await direct.claim(OLD);
    let claim: Promise<void> | undefined;
    await direct.run(OLD, async (tx) => {
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      claim = postgresGuard(another, { resource: account }).claim(NEW);
      await bank.blockedBy(rows[0]?.pid ?? 0);
      await expect(hasty.run(OLD, () => 0)).rejects.toMatchObject({ code: 'timeout' });
    });
    await claim;
  });

  it('a statement of the effect ends after statementTimeoutMs', async () => {
    const hasty = postgresGuard(bank.pool, { resource: account, statementTimeoutMs: 100 });
    await expect(hasty.run(OLD, (tx) => tx.query('SELECT pg_sleep(30)'))).rejects.toMatchObject({
      code: '57014',
    });
  });
});
