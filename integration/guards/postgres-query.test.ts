// guard.query: one statement whose check, write and commit leave in one message, and still are the guard's whole
// promise: it comes before a new owner or not at all.
import { FencingToken } from '@lockkeeper/fencing';
import { type PostgresGuard, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import {
  chunkContaining,
  type PostgresServer,
  startPostgres,
  startTcpProxy,
  type TcpProxy,
} from '@lockkeeper/testkit';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
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

const token = (revision: bigint, acquisition = `a${revision}`, lineage = 'main') =>
  new FencingToken({ lineage, revision, acquisition });
const OLD = token(2n ** 63n - 2n);
const NEW = token(2n ** 63n - 1n);
const UPDATE = 'UPDATE account SET value = $1 WHERE name = $2';

let account: string;
let guard: PostgresGuard;

beforeEach(async () => {
  account = await bank.newAccount();
  guard = postgresGuard(bank.pool, { resource: account });
});

const write = (through: PostgresGuard, as: FencingToken, value: string, signal?: AbortSignal) =>
  through.query(as, UPDATE, [value, account], { signal });

type Sending = Record<'bind' | 'sync', (...args: unknown[]) => void>;

/** A query that sends no end where the parameters cannot be sent. */
class ForgetfulQuery extends (pg.Query as unknown as new (
  config: object,
) => { prepare(connection: Sending): void }) {
  override prepare(connection: Sending): void {
    let failed = false;
    const bind = (...args: unknown[]) => {
      failed = true;
      connection.bind(...args);
      failed = false;
    };
    const sync = () => {
      if (!failed) connection.sync();
    };
    super.prepare(Object.create(connection, { bind: { value: bind }, sync: { value: sync } }));
  }
}
class ForgetfulClient extends pg.Client {
  static Query = ForgetfulQuery;
}

/** Connections whose transactions are of another kind unless they say so. */
const inclined = (options: string) => bank.newPool({ options });

describe('guard.query', () => {
  it('gives the result that pg gives, for every form of query', async () => {
    await guard.claim(OLD);
    const returning = `${UPDATE} RETURNING name, length(value) AS length, 7::int8 AS big`;
    const expected = { command: 'UPDATE', rowCount: 1, rows: [{ name: account, length: 3, big: '7' }] };
    expect(await guard.query(OLD, returning, ['abc', account])).toMatchObject(expected);
    const named = { name: `write ${account}`, text: returning, values: ['abc', account] };
    for (let times = 0; times < 3; times++) expect(await guard.query(OLD, named)).toMatchObject(expected);
    const frozen = Object.freeze({ text: 'SELECT 1 AS one, $1::text AS two', rowMode: 'array' });
    const { rows, command, rowCount } = await guard.query(OLD, frozen, ['x']);
    expect([rows, command, rowCount]).toEqual([[[1, 'x']], 'SELECT', 1]);
    const { fields } = (await guard.query(OLD, 'SELECT 1 AS one')) as pg.QueryResult;
    expect(fields.map(({ name }) => name)).toEqual(['one']);
  });

  it('decides like run: the whole table', async () => {
    const refused = (as: FencingToken, code: string) =>
      expect(write(guard, as, 'refused')).rejects.toMatchObject({ code, token: as, current: OLD });
    await guard.claim(OLD);
    await write(guard, OLD, 'kept');
    await refused(token(2n ** 63n - 3n), 'stale-token');
    await refused(token(2n ** 53n), 'stale-token');
    await refused(token(OLD.revision, 'other'), 'conflicting-token');
    await refused(token(1n, 'a1', 'restored'), 'foreign-lineage');
    await expect(
      guard.query(NEW, UPDATE, ['refused', account], { requireClaim: true }),
    ).rejects.toMatchObject({ code: 'unclaimed', current: OLD });
    await guard.seal(OLD);
    await refused(OLD, 'sealed');
    expect(await bank.peek(account)).toBe('kept');
    await write(guard, NEW, 'newer');
    expect(await guard.inspect()).toMatchObject({ sealed: false, token: { revision: NEW.revision } });
    await expect(write(guard, OLD, 'late')).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    expect(await bank.peek(account)).toBe('newer');
  });

  it('advances a guard that nobody used, and tells where it must not', async () => {
    const strict = postgresGuard(bank.pool, { resource: account, requireClaim: true });
    await expect(write(strict, OLD, 'x')).rejects.toMatchObject({ code: 'unclaimed', current: undefined });
    await write(guard, OLD, 'first');
    await write(strict, OLD, 'second');
    expect(await bank.peek(account)).toBe('second');
  });

  it('is one message, which holds nothing up while it is on its way', async () => {
    const through = postgresGuard(proxied, { resource: account });
    await through.claim(OLD);
    await write(through, OLD, 'warm');
    const hold = proxy.hold({ direction: 'request', match: chunkContaining('UPDATE account') });
    const late = write(through, OLD, 'late');
    await hold.held;
    await guard.claim(NEW);
    await write(guard, NEW, 'new');
    hold.release();
    await expect(late).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    expect(await bank.peek(account)).toBe('new');
  });

  it.each([
    ['as it is', class extends pg.Client {}],
    ['as most versions of the driver do, which leave out the end of the message', ForgetfulClient],
  ])('and run survive a parameter that the driver cannot convert: %s', async (_, Client) => {
    const pool = bank.newPool({ max: 1, Client });
    const through = postgresGuard(pool, { resource: account });
    await through.claim(OLD);
    const circular: { self?: unknown } = {};
    circular.self = circular;
    const refused = { name: 'TypeError', message: expect.stringContaining('circular') };
    for (const value of ['query', 'again']) {
      await expect(through.query(OLD, UPDATE, [circular, account])).rejects.toMatchObject(refused);
      expect(await through.query(OLD, UPDATE, [value, account])).toMatchObject({ rowCount: 1 });
      const run = through.run(OLD, (tx) => tx.query(UPDATE, [circular, account]));
      await expect(run).rejects.toMatchObject(refused);
      expect(await bank.peek(account)).toBe(value);
    }
    await guard.claim(NEW);
    expect([pool.totalCount, pool.idleCount]).toEqual([1, 1]);
  });

  it('works on a pool of one and on a Client, many at once, and leaves no lock or setting behind', async () => {
    const one = bank.newPool({ max: 1 });
    const client = bank.newClient();
    await client.connect();
    for (const source of [one, client]) {
      const through = postgresGuard(source, { resource: account });
      const add = `UPDATE account SET value = value || $1 WHERE name = $2`;
      await Promise.all(Array.from({ length: 20 }, () => through.query(OLD, add, ['x', account])));
      const { rows } = await source.query(`SELECT current_setting('statement_timeout') AS statement,
        current_setting('lock_timeout') AS lock, current_setting('lockkeeper.turns', true) AS turns,
        (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks`);
      expect(rows).toEqual([{ statement: '0', lock: '0', turns: '', locks: 0 }]);
    }
    expect(await bank.peek(account)).toBe('x'.repeat(40));
    await client.end();
  });
});

describe.each([
  ['READ COMMITTED', ''],
  ['REPEATABLE READ', '-c default_transaction_isolation=repeatable\\ read'],
  ['SERIALIZABLE', '-c default_transaction_isolation=serializable'],
  ['READ ONLY', '-c default_transaction_read_only=on'],
])('a query in a session whose default is %s', (_, options) => {
  it('that waits for a claim is refused once the claim has won', async () => {
    const through = postgresGuard(inclined(options), { resource: account });
    const elsewhere = postgresGuard(bank.newPool(), { resource: account });
    await through.claim(OLD);
    await write(through, OLD, 'warm');
    let late: Promise<unknown> | undefined;
    let claim: Promise<void> | undefined;
    await guard.run(OLD, async (tx) => {
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      claim = elsewhere.claim(NEW);
      await bank.blockedBy(rows[0]?.pid ?? 0);
      late = write(through, OLD, 'late').catch((error: unknown) => error);
      // Behind the claim by now.
      await bank.until(
        `SELECT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND NOT granted
          AND objid = (SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = $1 LIMIT 1)`,
        [rows[0]?.pid],
      );
    });
    await claim;
    expect(await late).toMatchObject({ code: 'stale-token', current: NEW });
    expect(await bank.peek(account)).toBe('warm');
  });

  it('that waits for a row holds off a new claim until it is committed', async () => {
    const through = postgresGuard(inclined(options), { resource: account });
    const elsewhere = postgresGuard(bank.newPool(), { resource: account });
    await through.claim(OLD);
    const held = await bank.holdWrites(account);
    const writing = write(through, OLD, 'old');
    await held.reached;
    let claimed = false;
    const claim = elsewhere.claim(NEW).then(() => {
      claimed = true;
    });
    await bank.until("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = $1", [
      'ExclusiveLock',
    ]);
    expect(claimed).toBe(false);
    await held.letGo();
    await Promise.all([writing, claim]);
    expect(await bank.peek(account)).toBe('old');
  });
});

describe('what is no plain statement', () => {
  it.each([
    'COMMIT',
    'BEGIN',
    'ROLLBACK AND CHAIN',
    '/* a comment */ SELECT 1',
    'CALL leave()',
    'DO $$ BEGIN COMMIT; END $$',
    'SELECT 1; SELECT 2',
  ])('cannot leave the guard: %s', async (text) => {
    await bank.pool.query(`CREATE OR REPLACE PROCEDURE leave() LANGUAGE plpgsql AS $$ BEGIN
      COMMIT; UPDATE account SET value = 'escaped'; END $$`);
    const one = bank.newPool({ max: 1 });
    const through = postgresGuard(one, { resource: account });
    await through.claim(OLD);
    const ending = await through.query(OLD, text).then(
      ({ command }) => command,
      (error: { code: string }) => error.code,
    );
    const expected = { CALL: '2D000', DO: '2D000', BEGIN: 'BEGIN' }[text.split(/\W/)[0] ?? ''];
    if (expected !== undefined) expect(ending).toBe(expected);
    else if (text.includes(';')) expect(ending).toBe('42601');
    else expect(ending).toBe(text.startsWith('/*') ? 'SELECT' : 'unknown');
    expect(await bank.peek(account)).toBe('');
    // Nothing of it is left on the connection.
    const { rows } = await one.query('SELECT now() = statement_timestamp() AS fresh');
    expect(rows).toEqual([{ fresh: true }]);
    await write(through, OLD, 'next');
  });

  it.each([
    [undefined, []],
    [{ values: [] }, undefined],
    [{ text: 'SELECT 1', submit: () => {} }, undefined],
    ['SELECT $1', 'no array'],
  ])('is refused before anything is sent: %j with %j', async (query, values) => {
    await expect(guard.query(OLD, query as never, values as never)).rejects.toMatchObject({
      code: 'invalid-option',
    });
    expect(await guard.inspect()).toBeUndefined();
  });
});

describe('the three outcomes of a query', () => {
  it.each(['drop-reply', 'drop-request'] as const)(
    'are unknown where the connection is lost: %s',
    async (kind) => {
      const through = postgresGuard(proxied, { resource: account });
      await through.claim(OLD);
      const match = chunkContaining('UPDATE account');
      const caught =
        kind === 'drop-reply'
          ? proxy.loseReply({ match }).lost
          : proxy.hold({ direction: 'request', match }).held;
      void caught.then(() => proxy.cut());
      await expect(write(through, OLD, 'x')).rejects.toMatchObject({ code: 'unknown', token: OLD });
      await guard.claim(NEW);
      expect(await bank.peek(account)).toBe(kind === 'drop-reply' ? 'x' : '');
      await expect(write(through, OLD, 'y')).rejects.toMatchObject({ code: 'stale-token' });
    },
  );

  it("are pg's own error where the statement fails, and the connection lives on", async () => {
    const one = bank.newPool({ max: 1 });
    const through = postgresGuard(one, { resource: account });
    const pid = async () => (await one.query('SELECT pg_backend_pid() AS pid')).rows;
    const before = await pid();
    await expect(through.query(OLD, "SELECT 1 / $1::int, 'lockkeeper[]'", [0])).rejects.toMatchObject({
      code: '22012',
    });
    await expect(through.query(OLD, 'SELECT $1::int', ['lockkeeper[x]'])).rejects.toMatchObject({
      code: '22P02',
    });
    await expect(through.query(OLD, { name: 'q', text: 'SELECT no_such' })).rejects.toMatchObject({
      code: '42703',
    });
    const unconvertible = {
      toPostgres: () => {
        throw new Error('no SQL for this');
      },
    };
    await expect(write(through, OLD, unconvertible as never)).rejects.toThrow('no SQL for this');
    expect(await pid()).toEqual(before);
    await write(through, OLD, 'next');
    expect(await bank.peek(account)).toBe('next');
  });

  it('are definite where COMMIT itself is refused, by a deferred constraint', async () => {
    await bank.pool.query(
      'DROP TABLE IF EXISTS later; CREATE TABLE later (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)',
    );
    await expect(guard.query(OLD, 'INSERT INTO later VALUES (1), (1)')).rejects.toMatchObject({
      code: 'unavailable',
      outcome: 'failed',
      cause: { code: '23505' },
    });
  });

  it('are unknown, not failed, where it was applied and the driver cannot read the row', async () => {
    await guard.claim(OLD);
    const types = {
      getTypeParser: () => () => {
        throw new Error('unreadable');
      },
    };
    const query = { text: `${UPDATE} RETURNING 1`, values: ['applied', account], types };
    await expect(guard.query(OLD, query)).rejects.toMatchObject({ code: 'unknown', message: /was applied/ });
    expect(await bank.peek(account)).toBe('applied');
  });

  it('are timeout after statementTimeoutMs, behind a claim and at a row', async () => {
    const hasty = postgresGuard(bank.newPool(), { resource: account, statementTimeoutMs: 100 });
    await guard.claim(OLD);
    const held = await bank.holdWrites(account);
    await expect(write(hasty, OLD, 'x')).rejects.toMatchObject({ code: 'timeout', outcome: 'failed' });
    await held.letGo();
    await expect(hasty.query(OLD, 'SELECT pg_sleep(30)')).rejects.toMatchObject({ code: 'timeout' });
    let claim: Promise<void> | undefined;
    await guard.run(OLD, async (tx) => {
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      claim = postgresGuard(bank.newPool(), { resource: account }).claim(NEW);
      await bank.blockedBy(rows[0]?.pid ?? 0);
      await expect(write(hasty, OLD, 'y')).rejects.toMatchObject({ code: 'timeout' });
    });
    await claim;
    expect(await bank.peek(account)).toBe('');
  });

  it('are not applied where the server ends the connection before the turn comes', async () => {
    const one = bank.newPool({ max: 1 });
    const through = postgresGuard(one, { resource: account });
    await through.claim(OLD);
    const { rows } = await one.query('SELECT pg_backend_pid() AS pid');
    const blocker = await bank.pool.connect();
    await blocker.query('BEGIN; LOCK TABLE lockkeeper_guards IN ACCESS EXCLUSIVE MODE');
    const writing = write(through, OLD, 'x').catch((error: unknown) => error);
    await bank.until('SELECT FROM pg_locks WHERE pid = $1 AND NOT granted', [rows[0].pid]);
    await bank.pool.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
    expect(await writing).toMatchObject({ code: 'unavailable', cause: { code: '57P01' } });
    await blocker.query('ROLLBACK');
    blocker.release();
  });

  it("are the signal's reason before the message was sent, unknown after it", async () => {
    const reason = new Error('enough');
    const one = bank.newPool({ max: 1 });
    const through = postgresGuard(one, { resource: account });
    await through.claim(OLD);
    await expect(write(through, OLD, 'x', AbortSignal.abort(reason))).rejects.toBe(reason);
    const taken = await one.connect();
    const waiting = new AbortController();
    const queued = write(through, OLD, 'x', waiting.signal);
    waiting.abort(reason);
    await expect(queued).rejects.toBe(reason);
    taken.release();
    const held = await bank.holdWrites(account);
    const sent = new AbortController();
    const writing = write(through, OLD, 'x', sent.signal);
    await held.reached;
    sent.abort(reason);
    await expect(writing).rejects.toMatchObject({ code: 'unknown', cause: reason });
    await held.letGo();
    await guard.claim(NEW);
    await write(through, NEW, 'next');
    expect(await bank.peek(account)).toBe('next');
  });

  it('are not-migrated where the table is missing', async () => {
    const bare = postgresGuard(bank.pool, { resource: account, table: 'nowhere' });
    await expect(write(bare, OLD, 'x')).rejects.toMatchObject({ code: 'not-migrated' });
  });
});

describe('prepared statements that are gone', () => {
  it('and cost nothing where several connections find them gone at the same time', async () => {
    const pool = bank.newPool({ max: 6 });
    const through = postgresGuard(pool, { resource: account });
    await through.claim(OLD);
    const calls = () => [1, 2, 3].flatMap(() => [write(through, OLD, 'x'), through.run(OLD, () => 'ran')]);
    await Promise.all(calls());
    const clients = await Promise.all(Array.from({ length: 6 }, () => pool.connect()));
    for (const client of clients) await client.query('DEALLOCATE ALL');
    for (const client of clients) client.release();
    await Promise.all(calls());
    expect(await bank.peek(account)).toBe('x');
  });

  it('as behind a pooler that does not keep them, cost neither a query nor a run anything', async () => {
    const forgetful = async () => {
      const one = bank.newPool({ max: 1 });
      const through = postgresGuard(one, { resource: account });
      await write(through, OLD, 'x');
      await through.run(OLD, () => 0);
      return { through, forget: () => one.query('DEALLOCATE ALL') };
    };
    const first = await forgetful();
    await first.forget();
    await write(first.through, OLD, 'y');
    expect(await bank.peek(account)).toBe('y');
    await first.forget();
    expect(await first.through.run(OLD, () => 'ran')).toBe('ran');
    const second = await forgetful();
    await second.forget();
    expect(await second.through.run(OLD, () => 'ran')).toBe('ran');
    const third = await forgetful();
    for (const time of [1, 2]) {
      const run = third.through.run(OLD, async (tx) => {
        await tx.query('UPDATE account SET value = $1 WHERE name = $2', [`z${time}`, account]);
        return tx.query('DEALLOCATE ALL');
      });
      await expect(run).resolves.toMatchObject({ rowCount: null });
      expect(await bank.peek(account)).toBe(`z${time}`);
    }
  });
});
