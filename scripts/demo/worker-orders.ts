// What the parent and the workers of the demo tell each other.
import type { Entry } from './add-entry.ts';
import type { WorkerName } from './story.ts';
import type { Hindrance } from './world.ts';

/** The point between the check and the write. */
export const BEFORE_WRITE = 'before-write';

export interface Setting {
  readonly who: WorkerName;
  readonly etcdEndpoint: string;
  readonly postgresUrl: string;
  readonly namespace: string;
  readonly schema: string;
  readonly ttlMs: number;
}

export interface Order {
  /** Also the name of its lock and of its guard's resource. */
  readonly account: string;
  readonly entry: Entry;
  readonly guarded: boolean;
  readonly hindrance: Hindrance | 'none';
}
