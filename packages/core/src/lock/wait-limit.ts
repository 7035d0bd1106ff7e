import type { Clock, Timer } from '../clock.ts';
import { DEFAULT_CALL_TIMEOUT_MS } from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import type { AbortScope } from '../signals.ts';
import { publish } from '../telemetry.ts';
import type { Acquisition } from './acquisition.ts';
import type { LockHost } from './lock-host.ts';

/**
 * The limit on getting in line and on waiting there. Until we are in line, running into it means that etcd did
 * not answer; who asks not to wait is told so after a call's time.
 */
export class WaitLimit {
  /** Of the last attempt. */
  acquisition: Acquisition | undefined;
  readonly #clock: Clock;
  readonly #begunAt: number;
  readonly #timer: Timer | undefined;
  #behind: readonly string[] | undefined;
  #queued = false;

  constructor(title: string, waitTimeoutMs: number | undefined, host: LockHost, scope: AbortScope) {
    this.#clock = host.options.clock;
    this.#begunAt = this.#clock.now();
    if (waitTimeoutMs === undefined) return;
    const limitMs = waitTimeoutMs === 0 ? DEFAULT_CALL_TIMEOUT_MS : waitTimeoutMs;
    // Who asks not to wait is first where it is in line at all: only etcd's word on that is missing then.
    this.#timer = scope.limit(this.#clock, limitMs, () =>
      this.#queued && waitTimeoutMs !== 0
        ? waitTimeout(
            title,
            limitMs,
            this.#behind === undefined ? 'queued' : `queued behind ${this.#behind.join(', ')}`,
          )
        : notReached(title, limitMs, (this.acquisition ?? host).trouble),
    );
  }

  queuedBehind(acquisition: Acquisition, keys: readonly string[] | undefined): void {
    this.#queued = true;
    this.#behind = keys;
    publish('lockkeeper:lock:queued', () => ({
      name: acquisition.name,
      acquisition: acquisition.id,
      behind: keys?.[0],
    }));
  }

  /** Etcd answered: only somebody else's leaving is waited for. */
  inLine(): void {
    this.#queued = true;
  }

  /** Granted: from now on nothing here ends it. */
  lift(): void {
    this.#timer?.cancel();
  }

  waitedMs(): number {
    return this.#clock.now() - this.#begunAt;
  }
}

function notReached(title: string, limitMs: number, cause: LockkeeperError | undefined): LockkeeperError {
  const why = cause === undefined ? '' : `: ${cause.message}`;
  return new LockkeeperError('unreachable', `${title}: etcd did not answer within ${limitMs} ms${why}`, {
    cause,
  });
}

export function waitTimeout(title: string, limitMs: number, where: string): LockkeeperError {
  return new LockkeeperError(
    'wait-timeout',
    `${title}: not acquired within waitTimeoutMs ${limitMs} (${where})`,
  );
}
