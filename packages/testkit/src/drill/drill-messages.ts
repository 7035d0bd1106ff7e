// What the drill and the processes that it drills tell each other.
import type { Worker } from '../worker/worker.ts';

/** Options of `connect`. */
export interface DrillKeeper {
  readonly hosts: string;
  readonly namespace: string;
  readonly ttlMs: number;
  /** `first` or `second`. */
  readonly identity: string;
}

/** What `run` gets that can travel. */
export interface DrillOrder<Data = unknown> {
  /** A text of its own that this run is to put into the storage, so that the drill finds it there. */
  readonly update: string;
  /** For `connect`: the drill's etcd, a namespace of its own, a short TTL. */
  readonly keeper: DrillKeeper;
  /** The resource's `url`, where the drill was given one: connect to the storage by this one. */
  readonly resourceUrl: string | undefined;
  /** What the drill was given as `data`. */
  readonly data: Data;
}

/** What the drilled module's `run` gets. */
export interface DrillContext<Data = unknown> extends DrillOrder<Data> {
  /** The same as that of `@lockkeeper/testkit/worker`, for code that shall not import it. */
  readonly pausePoint: (name: string) => Promise<void>;
}

/**
 * What a drilled module exports as `run`: it gets the lock, and adds `update` to the storage as the application
 * would, `pausePoint` called wherever a process might pause. It resolves when it would tell its own caller that the
 * update is done, and rejects when it would not.
 */
export type DrillRun<Data = unknown> = (context: DrillContext<Data>) => Promise<unknown> | unknown;

export interface DrillCommand {
  readonly type: 'run';
  readonly order: DrillOrder;
}

export type DrillMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'passed'; readonly point: string }
  | HoldMessage
  | { readonly type: 'done' }
  /** `rejected`: it says itself that nothing was done. */
  | { readonly type: 'failed'; readonly error: string; readonly rejected: boolean };

/** What becomes of the holds of a process, whichever of its keepers has them. */
export interface HoldMessage {
  readonly type: 'granted' | 'lost' | 'released';
  readonly lock: string;
  readonly token: string;
  readonly waitedMs?: number;
}

export type DrillWorker = Worker<DrillMessage, DrillCommand>;
