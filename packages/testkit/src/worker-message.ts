/** What workers and their parents tell each other: an object with a `type` that names it, and its data. */
export interface WorkerMessage {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** How messages travel. Structured clone on both ends: `bigint`, `Date`, `Map` and `Error` survive. */
export type UpEnvelope =
  | { readonly up: 'report'; readonly atMs: number; readonly message: WorkerMessage }
  | { readonly up: 'point'; readonly atMs: number; readonly name: string };

export type DownEnvelope =
  | { readonly down: 'command'; readonly message: WorkerMessage }
  | { readonly down: 'proceed'; readonly name: string };

/** Wall time in milliseconds since the epoch, with fractions: comparable between processes of one machine. */
export function wallTime(): number {
  return performance.timeOrigin + performance.now();
}
