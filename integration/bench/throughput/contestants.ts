// What is measured: to acquire a lock that nobody else wants and to release it, each worker with a name of its own.
// Every contestant is one client in this process, as its users would have it.
import { type Coordinator, connect, etcdCoordinator } from '@lockkeeper/core';
import {
  type EtcdServer,
  type PostgresServer,
  type RedisServer,
  startEtcd,
  startPostgres,
  startRedis,
} from '@lockkeeper/testkit';
import { Etcd3 } from 'etcd3';
import { Redis } from 'ioredis';
import { Client } from 'pg';

export interface Contestant extends AsyncDisposable {
  /** The server, with its version. */
  readonly server: string;
  /** Acquires and releases the lock of one worker. */
  pair(worker: number): Promise<unknown>;
}

const TTL_MS = 30_000;

/** By the name that they have in the ratios. */
export const CONTESTANTS = {
  lockkeeper: async () => lockkeeper(await startEtcd({ own: true })),
  bare: async () => bareTransactions(await startEtcd({ own: true })),
  'etcd3-lock': async () => etcd3Lock(await startEtcd({ own: true })),
  'redlock-aof': async () => redlock(await startRedis({ own: true })),
  redlock: async () => redlock(await startRedis({ settings: { appendonly: 'no' } })),
  'postgres-advisory': async () => advisoryLocks(await startPostgres({ own: true })),
} as const satisfies Readonly<Record<string, () => Promise<Contestant>>>;

export type ContestantName = keyof typeof CONTESTANTS;

/** How they are called in a sentence. */
export const TITLES: Readonly<Record<ContestantName, string>> = {
  lockkeeper: 'Lockkeeper',
  bare: 'two bare etcd transactions, same client',
  'etcd3-lock': '`etcd3` Lock',
  'redlock-aof': 'Redlock on one Redis, appendfsync always',
  redlock: 'Redlock on one Redis, nothing on disk',
  'postgres-advisory': 'PostgreSQL advisory locks, one connection',
};

async function lockkeeper(etcd: EtcdServer): Promise<Contestant> {
  const keeper = await connect({ hosts: etcd.endpoint, ttlMs: TTL_MS });
  return {
    server: `etcd ${etcd.version}`,
    pair: async (worker) => {
      const hold = await keeper.lock(`name-${worker}`).acquire();
      await hold.release();
    },
    [Symbol.asyncDispose]: async () => {
      await keeper.close();
      await etcd.stop();
    },
  };
}

/** The least that any lock on etcd sends, one call a transaction: the floor of an acquire on its own. */
async function bareTransactions(etcd: EtcdServer): Promise<Contestant> {
  const coordinator: Coordinator = etcdCoordinator({ hosts: etcd.endpoint });
  const lease = 4_711n;
  await coordinator.grant({ lease, ttlMs: 24 * 3_600_000 });
  const value = 'x'.repeat(200);
  return {
    server: `etcd ${etcd.version}`,
    pair: async (worker) => {
      const key = `lockkeeper/lock/name-${worker}/${lease}`;
      const { revision } = await coordinator.txn({
        compare: [{ key, target: 'createRevision', is: '=', to: 0n }],
        success: [{ op: 'put', key, value, lease }],
        failure: [{ op: 'range', key }],
      });
      await coordinator.txn({
        compare: [{ key, target: 'modRevision', is: '=', to: revision }],
        success: [{ op: 'delete', key }],
        failure: [{ op: 'range', key }],
      });
    },
    [Symbol.asyncDispose]: async () => {
      await coordinator.close();
      await etcd.stop();
    },
  };
}

async function etcd3Lock(etcd: EtcdServer): Promise<Contestant> {
  const client = new Etcd3({ hosts: etcd.endpoint });
  return {
    server: `etcd ${etcd.version}`,
    pair: async (worker) => {
      const lock = client.lock(`name-${worker}`).ttl(TTL_MS / 1_000);
      await lock.acquire();
      await lock.release();
    },
    [Symbol.asyncDispose]: async () => {
      client.close();
      await etcd.stop();
    },
  };
}

/** Deletes the key only if it is ours. */
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

/**
 * Redlock's algorithm where there is one Redis, without a package's own cost: the published release of `redlock` is
 * from 2021. One connection; ioredis writes commands without waiting for replies.
 */
async function redlock(redis: RedisServer): Promise<Contestant> {
  const client = new Redis(redis.url);
  client.defineCommand('unlock', { numberOfKeys: 1, lua: RELEASE });
  const { unlock } = client as unknown as { unlock(key: string, value: string): Promise<number> };
  let values = 0;
  return {
    server: `Redis ${redis.version}`,
    pair: async (worker) => {
      const [key, value] = [`name-${worker}`, `${process.pid}-${++values}`];
      if ((await client.set(key, value, 'PX', TTL_MS, 'NX')) !== 'OK') throw new Error(`${key} was not free`);
      if ((await unlock.call(client, key, value)) !== 1) throw new Error(`${key} was not ours`);
    },
    [Symbol.asyncDispose]: async () => {
      client.disconnect();
      await redis.stop();
    },
  };
}

/** They belong to a connection, so one client means one connection. */
async function advisoryLocks(postgres: PostgresServer): Promise<Contestant> {
  const client = new Client(postgres.url);
  await client.connect();
  return {
    server: `PostgreSQL ${postgres.version}`,
    pair: async (worker) => {
      await client.query({ name: 'lock', text: 'SELECT pg_advisory_lock($1)', values: [worker] });
      await client.query({ name: 'unlock', text: 'SELECT pg_advisory_unlock($1)', values: [worker] });
    },
    [Symbol.asyncDispose]: async () => {
      await client.end();
      await postgres.stop();
    },
  };
}
