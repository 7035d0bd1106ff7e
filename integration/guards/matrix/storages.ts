// The storages of the matrix, and which pause points they do not have.
import { openHttpStore } from '../stores/http.ts';
import { openMemoryStore } from '../stores/memory.ts';
import { openMysqlStore } from '../stores/mysql.ts';
import { openPostgresStore } from '../stores/postgres.ts';
import { openRedisStore } from '../stores/redis.ts';
import { openS3Store } from '../stores/s3.ts';
import { openSqliteStore } from '../stores/sqlite.ts';
import { etcdStage } from './etcd-stage.ts';
import { guardedStage } from './guarded-stage.ts';
import type { PausePoint } from './pause-points.ts';
import type { Stage } from './scene.ts';

export interface Storage {
  open(): Promise<Stage>;
  /** Points that mean nothing here, and why. */
  readonly without: Partial<Readonly<Record<PausePoint, string>>>;
  /** It ends a writer that is frozen in a transaction, so that the new owner need not wait until it goes on. */
  readonly endsFrozenWriters?: boolean;
}

const NO_NETWORK = {
  "with the write in a proxy's buffer": 'there is no network between writer and storage',
  'with the reply lost': 'there is no network between writer and storage',
} as const;

export const STORAGES = {
  memory: {
    open: () => guardedStage(openMemoryStore),
    without: {
      ...NO_NETWORK,
      'inside an open transaction': 'memory has no transactions',
      'across a restart of the storage': 'memory ends with its process, and the writers with it',
      'with a restored older copy of the storage': 'memory ends with its process, and the writers with it',
    },
  },
  postgres: { open: () => guardedStage(openPostgresStore), without: {}, endsFrozenWriters: true },
  mysql: { open: () => guardedStage(openMysqlStore), without: {}, endsFrozenWriters: true },
  sqlite: { open: () => guardedStage(openSqliteStore), without: NO_NETWORK },
  redis: { open: () => guardedStage(openRedisStore), without: {} },
  etcd: {
    open: etcdStage,
    without: {
      'inside an open transaction': 'a transaction of etcd is one request',
      'as a writer, while a reader claims': 'who comes after is no matter: the holder compares its own key',
    },
  },
  http: {
    open: () => guardedStage(openHttpStore),
    without: { 'inside an open transaction': 'each request is a transaction of its own in the service' },
  },
  s3: { open: () => guardedStage(openS3Store), without: {} },
} as const satisfies Readonly<Record<string, Storage>>;

export type StorageName = keyof typeof STORAGES;
