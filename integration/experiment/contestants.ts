// The three that are compared: the same work under the same pauses, and only the lock and the guard differ.

export const CONTESTANTS = {
  etcd3: 'the lock of the `etcd3` package',
  lock: 'Lockkeeper, without a guard',
  guarded: 'Lockkeeper, with a guard',
} as const;

export type Contestant = keyof typeof CONTESTANTS;

export const NAMES = Object.keys(CONTESTANTS) as readonly Contestant[];

/** What one process is told when it starts. */
export interface Setting {
  readonly contestant: Contestant;
  /** Of the process. */
  readonly name: string;
  readonly etcdEndpoint: string;
  readonly postgresUrl: string;
  readonly ttlMs: number;
  /** Between reading the list and writing it back: uniform, from 0 to this. */
  readonly workMs: number;
}
