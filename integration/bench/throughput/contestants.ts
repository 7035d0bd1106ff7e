// Who is measured. Each has a server of its own; those on etcd the same version of it.
import { startEtcd, startPostgres, startRedis } from '@lockkeeper/testkit';
import type { Missing } from '../go/build.ts';
import type { Contestant } from './contestant.ts';
import { bareTransactions, etcd3Lock, goMutexes, lockkeeper } from './on-etcd.ts';
import { advisoryLocks } from './on-postgres.ts';
import { redlock, setAndScript } from './on-redis.ts';

const etcd = () => startEtcd({ own: true });
const durableRedis = () => startRedis({ own: true });
const volatileRedis = () => startRedis({ settings: { appendonly: 'no' } });

/** By the name that they have in the ratios. */
export const CONTESTANTS = {
  lockkeeper: async () => lockkeeper(await etcd()),
  bare: async () => bareTransactions(await etcd()),
  'etcd3-lock': async () => etcd3Lock(await etcd()),
  'go-mutex': () => goMutexes(etcd),
  'redlock-aof': async () => redlock(await durableRedis()),
  redlock: async () => redlock(await volatileRedis()),
  'redis-set-aof': async () => setAndScript(await durableRedis()),
  'redis-set': async () => setAndScript(await volatileRedis()),
  'postgres-advisory': async () => advisoryLocks(await startPostgres({ own: true })),
} as const satisfies Readonly<Record<string, () => Promise<Contestant | Missing>>>;

export type ContestantName = keyof typeof CONTESTANTS;

/** How they are called in a sentence. */
export const TITLES: Readonly<Record<ContestantName, string>> = {
  lockkeeper: 'Lockkeeper',
  bare: 'two bare etcd transactions, same client',
  'etcd3-lock': '`etcd3` Lock',
  'go-mutex': 'Go `concurrency.Mutex`, one session',
  'redlock-aof': '`redlock` on one Redis, appendfsync always',
  redlock: '`redlock` on one Redis, nothing on disk',
  'redis-set-aof': 'SET NX and a script, without `redlock` (its floor), appendfsync always',
  'redis-set': 'SET NX and a script, without `redlock` (its floor), nothing on disk',
  'postgres-advisory': 'PostgreSQL advisory locks, one connection',
};
