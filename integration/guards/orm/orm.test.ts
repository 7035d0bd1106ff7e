// The examples of docs/guards/orms.md, run: what the holder writes is there, what a superseded one writes is not.
import { FencingToken } from '@lockkeeper/fencing';
import { type PostgresGuard, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import { drizzle } from 'drizzle-orm/node-postgres';
import { Kysely, PostgresDialect } from 'kysely';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Bank } from '../account.ts';
import { setBalance as withDrizzle } from './drizzle.example.ts';
import { setBalance as withKysely } from './kysely.example.ts';
import { type RawClient, setBalance as withRaw } from './raw.example.ts';

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

type Write = (
  pool: pg.Pool,
  guard: PostgresGuard,
  token: FencingToken,
  account: { readonly name: string; readonly value: string },
) => Promise<void>;

/** Prisma is not installed here: the functions used of it, over `pg`, and like there rows come as an array. */
function rawClient(pool: pg.Pool): RawClient {
  return {
    $transaction: async (work) => {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const done = await work({
          $queryRawUnsafe: async <T>(query: string, ...values: unknown[]) =>
            (await client.query(query, values)).rows as T,
          $executeRawUnsafe: async (query, ...values) => (await client.query(query, values)).rowCount ?? 0,
        });
        await client.query('COMMIT');
        return done;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    },
  };
}

describe.each<{ readonly name: string; readonly setBalance: Write }>([
  {
    name: 'Kysely',
    setBalance: (pool, ...rest) =>
      withKysely(new Kysely({ dialect: new PostgresDialect({ pool }) }), ...rest),
  },
  { name: 'Drizzle', setBalance: (pool, ...rest) => withDrizzle(drizzle(pool), ...rest) },
  {
    name: 'raw SQL in the style of Prisma',
    setBalance: (pool, ...rest) => withRaw(rawClient(pool), ...rest),
  },
])('the example for $name', ({ setBalance }) => {
  it('writes under the token in force, and nothing under one that was superseded', async () => {
    const name = await bank.newAccount();
    const guard = postgresGuard(bank.pool, { resource: name });
    await expect(setBalance(bank.pool, guard, OLD, { name, value: 'unclaimed' })).rejects.toMatchObject({
      code: 'unclaimed',
    });
    await guard.claim(OLD);
    await setBalance(bank.pool, guard, OLD, { name, value: 'old' });
    expect(await bank.peek(name)).toBe('old');
    await guard.claim(NEW);
    await expect(setBalance(bank.pool, guard, OLD, { name, value: 'late' })).rejects.toMatchObject({
      code: 'stale-token',
    });
    expect(await bank.peek(name)).toBe('old');
    await setBalance(bank.pool, guard, NEW, { name, value: 'new' });
    expect(await bank.peek(name)).toBe('new');
  });

  it('holds a newer claim back while its transaction is open', async () => {
    const name = await bank.newAccount();
    const guard = postgresGuard(bank.pool, { resource: name });
    await guard.claim(OLD);
    const held = await bank.holdWrites(name);
    const writing = setBalance(bank.pool, guard, OLD, { name, value: 'old' });
    await held.reached;
    const order: string[] = [];
    const claim = guard.claim(NEW).then(() => order.push('claim'));
    await bank.until("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", []);
    expect(order).toEqual([]);
    await held.letGo();
    await Promise.all([writing, claim]);
    expect(await bank.peek(name)).toBe('old');
  });
});
