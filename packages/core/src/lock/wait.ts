import type { Timer } from '../clock.ts';
import { DEFAULT_CALL_TIMEOUT_MS } from '../coordinator/coordinator.ts';
import { LockkeeperError, type LossCause } from '../errors.ts';
import type { SessionMember } from '../session/session.ts';
import { AbortScope, type AbortSignalLike } from '../signals.ts';
import { publish } from '../telemetry.ts';
import type { Acquisition } from './acquisition.ts';
import type { LockHost } from './lock-host.ts';

/**
 * One acquire that is not answered yet: how far it has come, and what ends it early. That is its caller, the closing of
 * the keeper, the loss of the session in whose line it stands, and the limit on getting in line and on waiting there.
 * Until it is in line, running into that limit means that etcd did not answer; who asks not to wait is told so after a
 * call's time.
 */
export class Wait extends AbortScope implements SessionMember {
  /** Of the last attempt. */
  acquisition: Acquisition | undefined;
  /** Whom it is in line behind, where the enqueue told. */
  behind: readonly string[] | undefined;
  /** Whether it is in line, and not the first as far as we know. */
  isQueued = false;
  readonly #host: LockHost;
  readonly #begunAt: number;
  #timer: Timer | undefined;
  #isLost = false;

  constructor(
    title: string,
    waitTimeoutMs: number | undefined,
    signal: AbortSignalLike | undefined,
    host: LockHost,
  ) {
    super();
    this.#host = host;
    this.#begunAt = host.options.clock.now();
    if (waitTimeoutMs !== undefined) this.#timer = this.#arm(title, waitTimeoutMs);
    if (host.closing.aborted) this.abort(host.closing.reason);
    this.follow(signal);
    host.waits.add(this);
  }

  /** Ended early, and not by the loss of its session: nobody waits for an answer any more. */
  get isGivenUp(): boolean {
    return this.aborted && !this.#isLost;
  }

  queuedBehind(acquisition: Acquisition, keys: readonly string[] | undefined): void {
    this.isQueued = true;
    this.behind = keys;
    publish('lockkeeper:lock:queued', () => ({
      name: acquisition.name,
      acquisition: acquisition.id,
      behind: keys?.[0],
    }));
  }

  /** Etcd answered: only somebody else's leaving is waited for. */
  inLine(): void {
    this.isQueued = true;
  }

  onSessionLost(cause: LossCause): void {
    if (this.aborted) return;
    this.#isLost = true;
    this.abort(this.acquisition?.lostWhileWaiting(cause));
  }

  /** Granted: from now on nothing here ends it. */
  lift(): void {
    this.#timer?.cancel();
  }

  waitedMs(): number {
    return this.#host.options.clock.now() - this.#begunAt;
  }

  /** Answered. */
  end(): void {
    this.#host.waits.delete(this);
    this[Symbol.dispose]();
  }

  #arm(title: string, waitTimeoutMs: number): Timer {
    const limitMs = waitTimeoutMs === 0 ? DEFAULT_CALL_TIMEOUT_MS : waitTimeoutMs;
    // Who asks not to wait is first where it is in line at all: only etcd's word on that is missing then.
    return this.limit(this.#host.options.clock, limitMs, () =>
      this.isQueued && waitTimeoutMs !== 0
        ? waitTimeout(
            title,
            limitMs,
            this.behind === undefined ? 'queued' : `queued behind ${this.behind.join(', ')}`,
          )
        : notReached(title, limitMs, (this.acquisition ?? this.#host).trouble),
    );
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
