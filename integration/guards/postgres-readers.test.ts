// Readers and writers of one read/write lock on PostgreSQL, where the contract does not look: statements that leave
// with their check, transactions of the caller's, the trigger, and many at once.
import { FencingToken, GuardError } from '@lockkeeper/fencing';
import {
  type PostgresGuard,
  postgresGuard,
  postgresGuardTriggerSql,
} from '@lockkeeper/resource-guard/postgres';
import {
  chunkContaining,
  type PostgresServer,
  startPostgres,
  startTcpProxy,
  type TcpProxy,
} from '@lockkeeper/testkit';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Bank } from './account.ts';

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

const token = (revision: bigint, shared = false) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}`, shared });
const reader = (revision: bigint) => token(revision, true);
const UPDATE = 'UPDATE account SET value = $1 WHERE name = $2';
const APPEND = 'UPDATE account SET value = value || $1 WHERE name = $2';
const STALE = { code: 'stale-token' };

let account: string;
let guard: PostgresGuard;

beforeEach(async () => {
  account = await bank.newAccount();
  guard = postgresGuard(bank.pool, { resource: account });
});

describe('a statement that leaves with its check', () => {
  /** How often `BEGIN` was sent while `act` was at work: never where all of it was one message. */
  async function begins(act: () => Promise<unknown>): Promise<number> {
    let seen = 0;
    const begin = chunkContaining('BEGIN');
    const settings = chunkContaining('lockkeeper.run');
    const watch = proxy.hold({
      direction: 'request',
      match: (chunk) => {
        if (begin(chunk) || settings(chunk)) seen += 1;
        return false;
      },
    });
    await act().finally(() => watch[Symbol.dispose]());
    return seen;
  }

  it('is one message also for a reader beside a newer one, once the state was seen', async () => {
    const through = postgresGuard(proxied, { resource: account });
    await through.claim(token(1n));
    await through.claim(reader(2n));
    const write = (as: FencingToken) => through.query(as, UPDATE, [`${as}`, account]);
    await write(reader(2n));
    expect(await begins(() => write(reader(2n)))).toBe(0);
    await guard.claim(reader(3n));
    expect(await begins(() => write(reader(2n)))).toBeGreaterThan(0);
    for (const as of [2n, 3n, 2n]) {
      expect(await begins(() => write(reader(as)))).toBe(0);
      expect(await bank.peek(account)).toBe(`${reader(as)}`);
    }
  });

  it('decides like run', async () => {
    await guard.claim(token(3n));
    await guard.claim(reader(5n));
    const late = postgresGuard(bank.pool, { resource: account });
    const write = (as: FencingToken) => late.query(as, UPDATE, [`${as}`, account]);
    await expect(write(token(3n))).rejects.toMatchObject({ ...STALE, current: reader(5n) });
    await expect(write(token(4n))).rejects.toMatchObject({ ...STALE, current: reader(5n) });
    await expect(write(reader(2n))).rejects.toMatchObject({ ...STALE, current: token(3n) });
    expect(await bank.peek(account)).toBe('');
    await write(reader(3n));
    await write(reader(4n));
    expect(await bank.peek(account)).toBe(`${reader(4n)}`);
    // What this guard saw last is out of date now.
    await guard.claim(token(7n));
    for (const as of [reader(4n), reader(5n)])
      await expect(write(as)).rejects.toMatchObject({ ...STALE, current: token(7n) });
    await write(token(7n));
    await guard.seal(token(7n));
    await expect(write(reader(7n))).rejects.toMatchObject({ code: 'sealed' });
    await write(reader(8n));
    expect(await late.inspect()).toEqual({
      token: reader(8n),
      sealed: false,
      writer: { token: token(7n), sealed: true },
    });
  });
});

it("a reader's claim waits for no reader's run; its seal waits for its own, and a writer's claim for all", async () => {
  await guard.claim(token(1n));
  await guard.claim(reader(2n));
  const others = postgresGuard(bank.newPool(), { resource: account });
  let seal: Promise<void> | undefined;
  let claim: Promise<void> | undefined;
  let behind: Promise<void> | undefined;
  await guard.run(reader(2n), async (older) => {
    await others.claim(reader(3n));
    await others.claim(reader(2n));
    expect(await others.run(reader(4n), () => 'ran')).toBe('ran');
    const third = postgresGuard(bank.newPool(), { resource: account });
    await third.run(reader(4n), async (newer) => {
      const { rows } = await newer.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      seal = others.seal(reader(4n));
      await bank.blockedBy(rows[0]?.pid as number);
      await newer.query(APPEND, ['newer ', account]);
    });
    const waiting = (count: number) =>
      bank.until("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted HAVING count(*) >= $1", [
        count,
      ]);
    await waiting(1);
    claim = others.claim(token(5n));
    await waiting(2);
    // Nor is it overtaken by a reader: seal, claim and that one wait now.
    behind = others.claim(reader(6n));
    await waiting(3);
    await older.query(APPEND, ['older', account]);
  });
  await Promise.all([seal, claim, behind]);
  expect(await bank.peek(account)).toBe('newer older');
  const writer = { token: token(5n), sealed: false };
  expect(await guard.inspect()).toEqual({ token: reader(6n), sealed: false, writer });
});

it('many readers that write while others claim lose nothing, and all stop at a writer', async () => {
  await guard.claim(token(1n));
  const accepted: string[] = [];
  const atWork = new Set<bigint>();
  const reads = async (revision: bigint) => {
    const own = postgresGuard(bank.newPool({ max: 2 }), { resource: account });
    for (let count = 0; ; count++) {
      const entry = `${revision}.${count} `;
      const as = reader(revision);
      const append = () =>
        count % 3 === 0
          ? own.run(as, (tx) => tx.query(APPEND, [entry, account]))
          : own.query(as, APPEND, [entry, account]);
      try {
        await append();
      } catch (error) {
        if (error instanceof GuardError && error.outcome === 'retry') continue;
        expect(error).toMatchObject(STALE);
        return count;
      }
      accepted.push(entry);
      if (count >= 5) atWork.add(revision);
      // The writer comes when everybody is at work.
      if (atWork.size === 6) writing ??= guard.claim(token(100n));
    }
  };
  let writing: Promise<void> | undefined;
  const claims = async () => {
    for (let revision = 20n; writing === undefined && revision < 90n; revision++)
      await guard.claim(reader(revision)).catch((error: unknown) => {
        // The writer came while this claim was on its way.
        expect(writing).toBeDefined();
        expect(error).toMatchObject(STALE);
      });
  };
  const claiming = claims();
  const counts = await Promise.all([10n, 13n, 11n, 15n, 12n, 14n].map(reads));
  await Promise.all([claiming, writing]);
  expect(Math.min(...counts)).toBeGreaterThan(5);
  const entries = (await bank.peek(account)).split(/(?<= )/);
  expect(entries.sort()).toEqual(accepted.sort());
});

describe('enter', () => {
  async function inTransaction(level: string, body: (tx: pg.PoolClient) => Promise<void>): Promise<void> {
    const tx = await bank.pool.connect();
    try {
      await tx.query(`BEGIN ISOLATION LEVEL ${level}`);
      await body(tx);
      await tx.query('COMMIT');
    } catch (error) {
      await tx.query('ROLLBACK');
      throw error;
    } finally {
      tx.release();
    }
  }

  it.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])(
    'lets readers in beside each other, and holds a writer off: %s',
    async (level) => {
      await guard.claim(reader(2n));
      await guard.claim(reader(3n));
      let claim: Promise<void> | undefined;
      await inTransaction(level, async (older) => {
        await guard.enter(older, reader(2n));
        await inTransaction(level, async (newer) => guard.enter(newer, reader(3n)));
        const { rows } = await older.query('SELECT pg_backend_pid() AS pid');
        claim = postgresGuard(bank.newPool(), { resource: account }).claim(token(4n));
        await bank.blockedBy(rows[0].pid);
        await older.query(UPDATE, ['older', account]);
      });
      await claim;
      expect(await bank.peek(account)).toBe('older');
      for (const late of [2n, 3n])
        await expect(inTransaction(level, (tx) => guard.enter(tx, reader(late)))).rejects.toMatchObject(
          STALE,
        );
    },
  );

  it('refuses a stalled writer, and a reader that never claimed above all others', async () => {
    await guard.claim(token(1n));
    await guard.claim(reader(2n));
    const enter = (as: FencingToken) => inTransaction('READ COMMITTED', (tx) => guard.enter(tx, as));
    await expect(enter(token(1n))).rejects.toMatchObject(STALE);
    await expect(enter(reader(3n))).rejects.toMatchObject({ code: 'unclaimed' });
    await enter(reader(1n));
  });

  describe.each(['enforce', 'audit'] as const)('before a trigger that is to %s', (mode) => {
    const watch = { mode, resourceColumn: 'name', on: { table: 'account' } };
    beforeEach(async () => {
      await bank.pool.query(postgresGuardTriggerSql(watch).install);
      await bank.pool
        .query('DELETE FROM public.lockkeeper_audit WHERE resource = $1', [account])
        .catch(() => undefined);
    });
    afterEach(() => bank.pool.query(postgresGuardTriggerSql(watch).drop));

    /** By which way the write of `as` was stopped, or noted, if it was. */
    async function refusal(act: () => Promise<unknown>): Promise<string | undefined> {
      const stopped = await act().then(
        () => undefined,
        (error: { readonly code: string }) => error.code,
      );
      if (mode === 'enforce') return stopped;
      expect(stopped).toBeUndefined();
      const audit = 'DELETE FROM public.lockkeeper_audit WHERE resource = $1 RETURNING reason';
      const { rows } = await bank.pool.query(audit, [account]);
      if (rows.length === 0) return undefined;
      return /^no turn/.test(rows[0].reason) ? 'LK001' : 'LK002';
    }

    const marked = (turn: string) =>
      inTransaction('READ COMMITTED', async (tx) => {
        const { rows } = await tx.query("SELECT current_setting('lockkeeper.turns', true) AS turns");
        expect(rows[0].turns ?? '').toBe('');
        const entered = postgresGuard(bank.pool, { resource: account });
        await entered.enter(tx, reader(5n));
        // The same turn, under another token.
        await tx.query(
          "SELECT set_config('lockkeeper.turns', regexp_replace(current_setting('lockkeeper.turns'), '=.*', '=' || $1), true)",
          [turn],
        );
        await tx.query(UPDATE, [turn, account]);
      });

    it('a reader writes by every way, also beside a newer one', async () => {
      await guard.claim(token(3n));
      await guard.claim(reader(5n));
      for (const as of [reader(5n), reader(4n), reader(3n)]) {
        expect(await refusal(() => guard.query(as, UPDATE, ['query', account]))).toBeUndefined();
        expect(
          await refusal(() => guard.run(as, (tx) => tx.query(UPDATE, ['run', account]))),
        ).toBeUndefined();
        for (const level of ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']) {
          const entered = inTransaction(level, async (tx) => {
            await guard.enter(tx, as);
            await tx.query(UPDATE, [level, account]);
          });
          expect(await refusal(() => entered)).toBeUndefined();
          expect(await bank.peek(account)).toBe(level);
        }
      }
      expect(await refusal(() => bank.pool.query(UPDATE, ['none', account]))).toBe('LK001');
    });

    it('a turn passes exactly where decideGuard lets its token run', async () => {
      await guard.claim(token(3n));
      await guard.claim(reader(5n));
      const passing = [reader(5n), reader(4n), reader(3n)];
      for (const turn of passing) expect(await refusal(() => marked(`${turn}`)), `${turn}`).toBeUndefined();
      const another = new FencingToken({ lineage: 'main', revision: 3n, acquisition: 'other', shared: true });
      const foreign = new FencingToken({ ...reader(4n), lineage: 'another' });
      const stopped = [token(5n), token(4n), token(3n), reader(2n), reader(6n), another, foreign];
      const garbage = ['main:4:a4:shared:shared', 'main:x:a4:shared', `main:${'9'.repeat(60)}:a:shared`, ''];
      for (const turn of [...stopped, ...garbage])
        expect(await refusal(() => marked(`${turn}`)), `${turn}`).toBe('LK002');
    });

    it('nor does the reader that a sealed writer became, nor a reader after the next writer', async () => {
      await guard.seal(token(3n));
      await guard.claim(reader(5n));
      expect(await refusal(() => marked(`${reader(3n)}`))).toBe('LK002');
      expect(await refusal(() => marked(`${reader(4n)}`))).toBeUndefined();
      await guard.seal(reader(5n));
      await guard.claim(reader(6n));
      expect(await refusal(() => marked(`${reader(4n)}`))).toBeUndefined();
    });
  });
});
