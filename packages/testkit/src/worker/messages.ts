// What workers and their parents tell each other, and how it travels.

/** An object with a `type` that names it. Structured clone: `bigint`, `Date`, `Map` and `Error` survive. */
export interface Typed {
  readonly type: string;
}

/** A message of which nothing is known but that it has a type: what workers send that declare nothing else. */
export interface WorkerMessage extends Typed {
  readonly [field: string]: unknown;
}

/** Those of the messages that have that type. */
export type MessageOf<Messages extends Typed, Type extends string> = Messages extends {
  readonly type: infer Own;
}
  ? Type extends Own
    ? Messages
    : never
  : never;

/** What a worker does at a point until it may go on: its event loop runs, or nothing of its code does. */
export type Standstill = 'wait' | 'block';

/** A point at which the worker is to pause, once. */
export interface PauseOrder {
  readonly id: number;
  readonly name: string;
  readonly standstill: Standstill;
  /** Ends the standstill by itself. */
  readonly forMs?: number | undefined;
}

export type UpEnvelope =
  | { readonly up: 'report'; readonly atMs: number; readonly message: Typed }
  | { readonly up: 'point'; readonly atMs: number; readonly id: number };

export type DownEnvelope =
  | { readonly down: 'command'; readonly message: Typed }
  | { readonly down: 'pause-at'; readonly order: PauseOrder }
  | { readonly down: 'go-on'; readonly id: number };

/** The variable by which a worker knows that it is one. */
export const WORKER_VARIABLE = 'LOCKKEEPER_TESTKIT_WORKER';

/** Its value, as JSON. */
export interface WorkerBirth {
  /** Holds the socket, and the files that end a blocked standstill. */
  readonly folder: string;
  readonly pauses: readonly PauseOrder[];
}

/** The Unix socket over which they talk. */
export const socketOf = (folder: string): string => `${folder}/socket`;

/** Exists once a worker that blocks may go on: nothing else would reach it. */
export const goOnFileOf = (folder: string, id: number): string => `${folder}/go-on-${id}`;

/** Wall time in milliseconds since the epoch, with fractions: comparable between processes of one machine. */
export function wallTime(): number {
  return performance.timeOrigin + performance.now();
}
