/**
 * What processes did and what befell them, in one order, as plain JSON. The words are Jepsen's: a process
 * invokes an operation (`f`), which ends `ok`, `fail` (certainly had no effect) or `unknown` (it may take
 * effect, even later). Everything that is no operation is an `info`.
 *
 * The order of a history is what the checker believes: an operation that was completed before another was
 * invoked came before it.
 */
export type History = readonly HistoryEvent[];

export type HistoryEvent = InvokeEvent | OkEvent | FailEvent | UnknownEvent | InfoEvent;

interface HistoryMoment {
  /** Milliseconds. Those of one process are on one clock; see {@link mergeHistories}. */
  readonly atMs: number;
  /** Who: a lane of the timeline. A worker, a database, `etcd`. */
  readonly process: string;
}

interface OperationEvent extends HistoryMoment {
  /** Tells the open operations of one process from each other. */
  readonly op: number;
}

export type InvokeEvent = OperationEvent & { readonly type: 'invoke' } & Operation;

export interface OkEvent extends OperationEvent, OperationResult {
  readonly type: 'ok';
}

/** Certainly without effect, now and later. */
export interface FailEvent extends OperationEvent {
  readonly type: 'fail';
  readonly error?: string | undefined;
}

/** May or may not have had its effect, and may yet have it. */
export interface UnknownEvent extends OperationEvent {
  readonly type: 'unknown';
  readonly error?: string | undefined;
}

export type InfoEvent = HistoryMoment & { readonly type: 'info' } & Info;

/** What a process sets out to do. Tokens are their text. */
export type Operation =
  | { readonly f: 'acquire'; readonly lock: string; readonly shared?: boolean | undefined }
  | { readonly f: 'release'; readonly lock: string; readonly token?: string | undefined }
  | ({ readonly f: 'claim'; readonly token: string } & OnResource)
  | ({
      readonly f: 'write';
      readonly token?: string | undefined;
      /** What it adds, unlike any other write's: the checker looks for it in the final state. */
      readonly entry?: string | undefined;
      /** What it writes, for people. */
      readonly value?: string | undefined;
    } & OnResource)
  | ({
      readonly f: 'read';
      /** The last look, when all writes have ended: its `entries` are the final state. */
      readonly final?: boolean | undefined;
    } & OnResource);

interface OnResource {
  /** What is read and written. Tokens of one resource must be of one lock. */
  readonly resource: string;
}

/** What an operation brought. */
export interface OperationResult {
  /** Of `acquire`. */
  readonly token?: string | undefined;
  /** Of `read`: the entries that are there. */
  readonly entries?: readonly string[] | undefined;
  /** Of `read`: the entries stand in the order in which the store took them. */
  readonly inOrder?: boolean | undefined;
  /** Of `read`: what was read, for people. */
  readonly value?: string | undefined;
}

/**
 * What befalls.
 * - `grant`, `expiry`, `removal`: the truth in etcd, as one watch tells it: a lock is granted, its lease
 *   expired, its key is gone for any other reason. The process is who watches.
 * - `loss`: the process is told that its hold is lost.
 * - `pause`, `resume`: of the process.
 * - `fault`, `mend`: of the process, a server or a network; `name` pairs them.
 */
export type Info =
  | ({ readonly f: 'grant'; readonly shared?: boolean | undefined } & OfHold)
  | ({ readonly f: 'expiry' | 'removal' } & OfHold)
  | ({ readonly f: 'loss'; readonly cause?: string | undefined } & OfHold)
  | { readonly f: 'pause' | 'resume'; readonly name?: string | undefined }
  | { readonly f: 'fault' | 'mend'; readonly name: string };

interface OfHold {
  readonly lock: string;
  readonly token?: string | undefined;
}

/**
 * One history of several, each of which is in its own order.
 * - Recorded by processes of one machine: their wall clocks are one, so the merge goes by `atMs`. At equal
 *   times invocations come first, so that nothing seems to have been before what it was beside.
 * - Recorded on clocks that differ, or shifted on purpose: record all events in one process as they arrive
 *   ({@link HistoryRecorder.take}) and do not merge. What is late then looks later than it was, so an
 *   operation should be awaited before another process is told to begin one that depends on it.
 */
export function mergeHistories(...histories: readonly History[]): History {
  // Stable: what one process did at one time stays in its order, unless an invocation moves up.
  return histories.flat().toSorted((a, b) => a.atMs - b.atMs || rank(a) - rank(b));
}

function rank(event: HistoryEvent): number {
  return event.type === 'invoke' ? 0 : 1;
}
