// What the parent and the workers of the demo tell each other.
import type { Worker } from '@lockkeeper/testkit';
import type { Entry } from './add-entry.ts';
import type { Fact, WorkerName } from './story.ts';

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
}

export type Command = { readonly type: 'add-entry'; readonly order: Order } | { readonly type: 'end' };

export type Message =
  | { readonly type: 'ready' | 'done' | 'closed' }
  | { readonly type: 'fact'; readonly fact: Fact };

export type DemoWorker = Worker<Message, Command>;
