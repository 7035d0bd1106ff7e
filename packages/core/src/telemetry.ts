import { channel } from 'node:diagnostics_channel';
import type { FencingToken } from '@lockkeeper/fencing';
import type { LockkeeperError, LossCause } from './errors.ts';

/**
 * What is published on `node:diagnostics_channel`, by channel. `session` is the lease id in hex, as
 * `etcdctl` prints it; times are milliseconds. Publishing costs nothing while nobody subscribes.
 *
 * A subscriber is called at once, in the middle of things, and should be quick. One that throws changes
 * nothing for the lock: Node raises its error as an uncaught exception in a later turn, which ends the process
 * unless it listens for those.
 *
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 * subscribe('lockkeeper:lock:lost', (event) => report(event as TelemetryEvents['lockkeeper:lock:lost']));
 * ```
 */
export interface TelemetryEvents {
  /** A lease was granted. */
  'lockkeeper:session:opened': { readonly session: string; readonly ttlMs: number; readonly lineage: string };
  /** A renewal was confirmed, `lagMs` after it had been due. */
  'lockkeeper:session:renewed': {
    readonly session: string;
    readonly roundTripMs: number;
    readonly lagMs: number;
    readonly remainingMs: number;
  };
  'lockkeeper:session:renewal-failed': {
    readonly session: string;
    readonly error: unknown;
    readonly remainingMs: number;
  };
  /** A renewal is overdue, or wall time ran ahead of the monotonic clock: early warning of a loss. */
  'lockkeeper:session:suspect': {
    readonly session: string;
    readonly doubt: 'renewal' | 'clock';
    readonly remainingMs: number;
  };
  /** Confirmed again after it had been suspect. */
  'lockkeeper:session:recovered': { readonly session: string; readonly remainingMs: number };
  /** Lost, with every hold and wait on it; `closed` is the regular end. */
  'lockkeeper:session:lost': {
    readonly session: string;
    readonly cause: LossCause;
    readonly unconfirmedForMs: number;
  };
  /** In line behind another contender. */
  'lockkeeper:lock:queued': {
    readonly name: string;
    readonly acquisition: string;
    readonly behind: string | undefined;
  };
  'lockkeeper:lock:granted': {
    readonly name: string;
    readonly token: FencingToken;
    readonly waitedMs: number;
  };
  /**
   * An acquire ended without a grant: aborted, timed out, failed, or busy, which has no `error`. Before it
   * got as far as etcd's queue it has no `acquisition` either.
   */
  'lockkeeper:lock:gave-up': {
    readonly name: string;
    readonly acquisition: string | undefined;
    readonly error: unknown;
  };
  'lockkeeper:lock:lost': {
    readonly name: string;
    readonly token: FencingToken;
    readonly cause: LossCause;
    readonly heldMs: number;
  };
  'lockkeeper:lock:released': {
    readonly name: string;
    readonly token: FencingToken;
    readonly outcome: 'released' | 'already-lost' | 'unknown';
    readonly sealed: boolean | undefined;
    readonly heldMs: number;
  };
  /** A renewal timer fired this much late: the event loop, the process or the machine stood still. */
  'lockkeeper:process:stalled': { readonly session: string; readonly stalledMs: number };
  /**
   * Certificate files could not be used when they were read again for a new connection; what was read before
   * is still in force. `error` names the file.
   */
  'lockkeeper:credentials:unusable': { readonly error: LockkeeperError };
  /** etcd answered with an older revision than it had answered before. */
  'lockkeeper:history:regressed': { readonly seen: bigint; readonly found: bigint };
}

/** Publishes an event; `event` is only called when somebody listens. */
export function publish<Name extends keyof TelemetryEvents>(
  name: Name,
  event: () => TelemetryEvents[Name],
): void {
  const at = channel(name);
  if (at.hasSubscribers) at.publish(event());
}
