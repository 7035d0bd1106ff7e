// What is measured against what: one overwrite under a guard, and the same overwrite without it, by one client with
// connections of its own and nothing in between.
import { FencingToken } from '@lockkeeper/fencing';
import { mysqlGuard } from '@lockkeeper/resource-guard/mysql';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { startMariadb, startPostgres } from '@lockkeeper/testkit';
import { Bank } from '../account.ts';
import { MysqlBank } from '../mysql-bank.ts';
import { openEtcdStore } from '../stores/etcd.ts';
import { openHttpStore } from '../stores/http.ts';
import { openMysqlStore } from '../stores/mysql.ts';
import { openPostgresStore } from '../stores/postgres.ts';
import { openRedisStore } from '../stores/redis.ts';
import { openS3Store } from '../stores/s3.ts';
import { openSqliteStore } from '../stores/sqlite.ts';
import type { GuardedStore } from '../stores/store.ts';

/** Two ways to do the same. */
export interface Contest extends AsyncDisposable {
  /** The server, with its version. */
  readonly server: string;
  guarded(): Promise<unknown>;
  plain(): Promise<unknown>;
}

/** How many calls are in flight at most. */
export const LEVELS = [1, 16] as const;
const CONNECTIONS = 16;

const token = new FencingToken({ lineage: 'main', revision: 7n, acquisition: 'A' });

let texts = 0;

/** Never the same twice: a storage may leave out a write that changes nothing. */
function nextText(): string {
  texts += 1;
  return `${texts}`.padEnd(100, 'x');
}

export const CONTESTANTS = {
  postgres: () => overwrites(openPostgresStore),
  'postgres-transaction': postgresTransactions,
  mysql: () => overwrites(openMysqlStore),
  'mysql-transaction': mysqlTransactions,
  sqlite: () => overwrites(openSqliteStore),
  redis: () => overwrites(openRedisStore),
  etcd: etcdTxns,
  http: () => overwrites(openHttpStore),
  s3: () => overwrites(openS3Store),
} as const satisfies Readonly<Record<string, () => Promise<Contest>>>;

export type ContestName = keyof typeof CONTESTANTS;

/** One after another, in this order. */
function closing(...steps: readonly (() => unknown)[]): () => Promise<void> {
  return async () => {
    for (const step of steps) await step();
  };
}

/** One statement, by the shortest way that the guard has. */
async function overwrites<Handle>(open: () => Promise<GuardedStore<Handle>>): Promise<Contest> {
  const store = await open();
  const account = await store.newAccount();
  const client = await account.newClient({ direct: true });
  await client.guard.claim(token);
  return {
    server: store.name,
    guarded: () => client.writeGuarded(token, nextText()),
    plain: () => client.writePlain(nextText()),
    [Symbol.asyncDispose]: closing(
      () => client[Symbol.asyncDispose](),
      () => store[Symbol.asyncDispose](),
    ),
  };
}

/** Two statements and a commit, each awaited, as users write them. */
async function postgresTransactions(): Promise<Contest> {
  const server = await startPostgres({ own: true, settings: { synchronous_commit: 'on' } });
  const bank = await Bank.open(server.url);
  const names = [await bank.newAccount(), await bank.newAccount()];
  const pool = bank.newPool({ max: CONNECTIONS });
  const guard = postgresGuard(pool, { resource: 'transfer' });
  await guard.claim(token);
  const update = 'UPDATE account SET value = $1 WHERE name = $2';
  return {
    server: `PostgreSQL ${server.version}`,
    guarded: () =>
      guard.run(token, async (tx) => {
        for (const name of names) await tx.query(update, [nextText(), name]);
      }),
    plain: async () => {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        for (const name of names) await client.query(update, [nextText(), name]);
        await client.query('COMMIT');
      } finally {
        client.release();
      }
    },
    [Symbol.asyncDispose]: closing(
      () => bank[Symbol.asyncDispose](),
      () => server.stop(),
    ),
  };
}

async function mysqlTransactions(): Promise<Contest> {
  const server = await startMariadb({ own: true });
  const bank = await MysqlBank.open(server.url);
  const names = [await bank.newAccount(), await bank.newAccount()];
  const pool = bank.newPool({ connectionLimit: CONNECTIONS });
  const guard = mysqlGuard(pool, { resource: 'transfer' });
  await guard.claim(token);
  const update = 'UPDATE account SET value = ? WHERE name = ?';
  return {
    server: `MariaDB ${server.version}`,
    guarded: () =>
      guard.run(token, async (tx) => {
        for (const name of names) await tx.query(update, [nextText(), name]);
      }),
    plain: async () => {
      const client = await pool.getConnection();
      try {
        await client.query('START TRANSACTION');
        for (const name of names) await client.query(update, [nextText(), name]);
        await client.query('COMMIT');
      } finally {
        client.release();
      }
    },
    [Symbol.asyncDispose]: closing(
      () => bank[Symbol.asyncDispose](),
      () => server.stop(),
    ),
  };
}

/** `fencedTxn` against a transaction without comparisons, both through the keeper's own coordinator. */
async function etcdTxns(): Promise<Contest> {
  const store = await openEtcdStore();
  const account = await store.newAccount();
  const client = await account.newClient({ direct: true });
  await client.acquire();
  return {
    server: store.name,
    guarded: () => client.writeFenced(nextText()),
    plain: () => client.writePlain(nextText()),
    [Symbol.asyncDispose]: closing(
      () => client[Symbol.asyncDispose](),
      () => store[Symbol.asyncDispose](),
    ),
  };
}
