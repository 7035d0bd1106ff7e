// Calls that could wait for ever: inside their own effect, behind an effect that never settles, on a Client
// that nobody connected. Each of them ends, and gives back what it held.
import { getEventListeners } from 'node:events';
import { FencingToken } from '@lockkeeper/fencing';
import { type PostgresGuard, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import pg from 'pg';
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
/** Ends what stands still, and nothing that a busy machine held up for a moment. */
const IDLE_MS = 2_000;
const forEver = () => new Promise<never>(() => {});

let account: string;
beforeEach(async () => {
  account = await bank.newAccount();
});

async function connected(): Promise<pg.Client> {
  const client = bank.newClient();
  await client.connect();
  return client;
}

const INSIDE = { code: 'invalid-option', message: expect.stringMatching(/inside.*effect.*handle/) };

describe('inside an effect', () => {
  it.each([
    ['a Pool', async () => bank.newPool()],
    ['a Pool of one', async () => bank.newPool({ max: 1 })],
    ['a Client', connected],
  ])('every verb of the same guard is refused at once: %s', async (_, open) => {
    const source = await open();
    const guard = postgresGuard(source, { resource: account });
    const twin = postgresGuard(source, { resource: account });
    await guard.claim(OLD);
    const calls = (each: PostgresGuard): (() => Promise<unknown>)[] => [
      () => each.run(OLD, () => 0),
      () => each.claim(NEW),
      () => each.claim(OLD),
      () => each.seal(OLD),
    ];
    await guard.run(OLD, async (tx) => {
      for (const call of [...calls(guard), ...calls(twin)]) {
        await new Promise(setImmediate);
        await expect(call()).rejects.toMatchObject(INSIDE);
      }
      await accountAccess(account).write(tx, 'kept');
    });
    expect(await bank.peek(account)).toBe('kept');
    if (source instanceof pg.Client) await source.end();
  });

  it('of a Client, every guard on that Client is refused, also to migrate', async () => {
    const client = await connected();
    const guard = postgresGuard(client, { resource: account });
    const other = postgresGuard(client, { resource: `${account}, another` });
    await guard.run(OLD, async () => {
      await expect(other.claim(OLD)).rejects.toMatchObject(INSIDE);
      await expect(other.migrate()).rejects.toMatchObject(INSIDE);
    });
    await other.claim(OLD);
    await client.end();
  });

  it('other resources, other databases and enter() are not refused', async () => {
    const pool = bank.newPool();
    const guard = postgresGuard(pool, { resource: account });
    const other = postgresGuard(pool, { resource: `${account}, another` });
    const elsewhere = postgresGuard(bank.newPool(), { resource: account });
    await other.claim(OLD);
    const ran = await guard.run(OLD, async (tx) => {
      await other.enter(tx, OLD);
      return [await other.run(OLD, () => 'other'), await elsewhere.run(OLD, () => 'elsewhere')];
    });
    expect(ran).toEqual(['other', 'elsewhere']);
  });

  it('what was started there may call the guard once the run is over', async () => {
    const guard = postgresGuard(bank.pool, { resource: account });
    let over: () => void = () => {};
    const end = new Promise<void>((resolve) => (over = resolve));
    let later: Promise<string> | undefined;
    await guard.run(OLD, () => {
      later = end.then(() => guard.run(OLD, () => 'later'));
    });
    over();
    expect(await later).toBe('later');
  });

  it('a nested call that waits for the only connection ends with the outer run', async () => {
    const pool = bank.newPool({ max: 1 });
    const guard = postgresGuard(pool, { resource: account, idleInTransactionTimeoutMs: IDLE_MS });
    const other = postgresGuard(pool, { resource: `${account}, another` });
    let inner: Promise<string> | undefined;
    const outer = guard.run(OLD, () => (inner = other.run(OLD, () => 'inner')));
    await expect(outer).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    expect(await inner).toBe('inner');
  });
});

describe('an effect that never settles', () => {
  it('is not waited for after PostgreSQL ended its transaction: a Pool gets its place back', async () => {
    const pool = bank.newPool({ max: 1 });
    const guard = postgresGuard(pool, { resource: account, idleInTransactionTimeoutMs: IDLE_MS });
    const run = guard.run(OLD, async (tx) => {
      await accountAccess(account).write(tx, 'undone');
      return forEver();
    });
    await expect(run).rejects.toMatchObject({
      code: 'unavailable',
      outcome: 'failed',
      cause: { code: '25P03' },
    });
    expect(await guard.run(OLD, () => 'next')).toBe('next');
    expect(await bank.peek(account)).toBe('');
  });

  it('on a Client ends, and so do the calls behind it', async () => {
    const client = await connected();
    const guard = postgresGuard(client, { resource: account, idleInTransactionTimeoutMs: IDLE_MS });
    await guard.claim(OLD);
    const calls = [guard.run(OLD, forEver), guard.claim(NEW), guard.seal(NEW)];
    for (const call of calls)
      await expect(call).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    await client.end();
  });

  it('is not waited for when a statement of its own lost the connection', async () => {
    const guard = postgresGuard(bank.pool, { resource: account });
    const run = guard.run(OLD, async (tx) => {
      await tx.query('SELECT pg_terminate_backend(pg_backend_pid())').catch(() => undefined);
      return forEver();
    });
    await expect(run).rejects.toMatchObject({ code: 'unavailable', cause: { code: '57P01' } });
  });

  it('cannot write any more once the call was rejected', async () => {
    const guard = postgresGuard(bank.pool, { resource: account, idleInTransactionTimeoutMs: IDLE_MS });
    let wake: () => void = () => {};
    let late: Promise<void> | undefined;
    const run = guard.run(OLD, (tx) => {
      late = new Promise<void>((resolve) => (wake = resolve)).then(() =>
        accountAccess(account).write(tx, 'late'),
      );
      return late;
    });
    await expect(run).rejects.toMatchObject({ code: 'unavailable' });
    wake();
    await expect(late).rejects.toMatchObject({ code: 'unavailable', message: /is over/ });
    expect(await bank.peek(account)).toBe('');
  });
});

describe('a Client that nobody connected', () => {
  it('is refused at once by every verb, and served once it is connected', async () => {
    const client = bank.newClient();
    const guard = postgresGuard(client, { resource: account });
    const wayOut = { code: 'invalid-option', message: expect.stringContaining('connect()') };
    await expect(guard.claim(OLD)).rejects.toMatchObject(wayOut);
    await expect(guard.seal(OLD)).rejects.toMatchObject(wayOut);
    await expect(guard.run(OLD, () => 0)).rejects.toMatchObject(wayOut);
    await expect(guard.migrate()).rejects.toMatchObject(wayOut);
    await expect(guard.enter(client, OLD)).rejects.toMatchObject(wayOut);
    // Being connected is enough: the driver keeps what is sent until then.
    const connecting = client.connect();
    expect(await guard.run(OLD, () => 'ran')).toBe('ran');
    await connecting;
    await client.end();
    await expect(guard.run(OLD, () => 0)).rejects.toMatchObject({ code: 'unavailable' });
  });
});

describe('a Client that cannot connect', () => {
  it('fails the calls that wait for it, and later ones at once', async () => {
    const client = new pg.Client({ connectionString: 'postgres://nobody@127.0.0.1:1/none' });
    const guard = postgresGuard(client, { resource: account });
    const connecting = expect(client.connect()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    const unavailable = { code: 'unavailable', outcome: 'failed' };
    const calls = [guard.run(OLD, () => 0), guard.claim(OLD), guard.migrate()];
    for (const call of calls) await expect(call).rejects.toMatchObject(unavailable);
    await connecting;
    await expect(guard.seal(OLD)).rejects.toMatchObject(unavailable);
    await expect(guard.enter(client, OLD)).rejects.toMatchObject(unavailable);
  });
});

it('many calls on one signal leave it with one listener, and then with none', async () => {
  const { signal } = new AbortController();
  const guard = postgresGuard(bank.pool, { resource: account });
  await guard.claim(OLD);
  let most = 0;
  const runs = Array.from({ length: 30 }, () =>
    guard.run(
      OLD,
      () => {
        most = Math.max(most, getEventListeners(signal, 'abort').length);
      },
      { signal },
    ),
  );
  most = Math.max(most, getEventListeners(signal, 'abort').length);
  await Promise.all(runs);
  expect(most).toBe(1);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
