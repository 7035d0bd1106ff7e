import type { Keeper, LockkeeperError, LossCause } from '@lockkeeper/core';
import { GuardError } from '@lockkeeper/fencing';
import type { SimulatedConnection } from './connection.ts';
import type { Observer } from './observer.ts';
import type { Visit } from './plan.ts';
import type { SimulatedProcess } from './process.ts';
import { describeTarget, queuesOf } from './target.ts';

/** A keeper and what belongs to it. */
export interface Seat {
  readonly keeper: Keeper;
  readonly connection: SimulatedConnection;
  closing: boolean;
}

/** Whether the caller has given up. */
export interface Cancellation {
  /** Set when the signal was aborted. */
  reason: object | undefined;
  /** When, as its process counts. */
  atOwnTime: number;
}

/** One call of acquire, tryAcquire, using, campaign or run that is under way. */
export interface Attempt {
  readonly visit: Visit;
  readonly seat: Seat;
  readonly process: SimulatedProcess;
  /** True time. */
  readonly startedAt: number;
  /** As its process counts. */
  readonly startedAtOwnTime: number;
  readonly openingsFailedBefore: number;
  readonly cancellation: Cancellation;
}

/** How long an attempt that does not queue tries to reach etcd. */
const TRY_LIMIT_MS = 5_000;

function isTry({ how, waitTimeoutMs }: Visit): boolean {
  return how === 'try' || waitTimeoutMs === 0;
}

/** What an acquire may end with, and when. */
export class AcquireRules {
  readonly #observer: Observer;
  readonly #report: (kind: string, message: string) => void;
  readonly #open = new Set<Attempt>();
  readonly #processes = new Map<string, SimulatedProcess>();

  constructor(observer: Observer, report: (kind: string, message: string) => void) {
    this.#observer = observer;
    this.#report = report;
  }

  /** What has begun and not ended, of processes that live. */
  get unfinished(): readonly Attempt[] {
    return [...this.#open].filter(({ process }) => !process.isDead);
  }

  /** Those that live. */
  get processes(): readonly SimulatedProcess[] {
    return [...this.#processes.values()].filter(({ isDead }) => !isDead);
  }

  processNamed(name: string | undefined): SimulatedProcess | undefined {
    return name === undefined ? undefined : this.#processes.get(name);
  }

  begun(attempt: Attempt): void {
    this.#processes.set(attempt.process.name, attempt.process);
    this.#open.add(attempt);
  }

  ended(attempt: Attempt): void {
    this.#open.delete(attempt);
  }

  failed(attempt: Attempt, error: unknown): void {
    this.ended(attempt);
    const { reason } = attempt.cancellation;
    if (reason !== undefined && error === reason) return;
    const { code, message } = error as LockkeeperError;
    if (!this.#mayFailWith(attempt, error as LockkeeperError)) {
      const { visit, process } = attempt;
      this.#report(
        'false-error',
        `${process.name} ${visit.how} ${describeTarget(visit.target)} (${visit.id}): ${code}: ${message}`,
      );
    }
  }

  #mayFailWith(attempt: Attempt, error: LockkeeperError): boolean {
    const { visit, process, seat } = attempt;
    const elapsed = process.now() - attempt.startedAtOwnTime;
    const waitedEnough = visit.waitTimeoutMs !== undefined && elapsed >= visit.waitTimeoutMs - 2;
    switch (error.code) {
      case 'wait-timeout':
        return waitedEnough;
      case 'unreachable':
        return (
          waitedEnough ||
          seat.connection.openingsFailed > attempt.openingsFailedBefore ||
          (isTry(visit) && elapsed >= TRY_LIMIT_MS - 2)
        );
      case 'lost-while-waiting':
        return error.lossCause !== undefined && this.#mayHaveLost(attempt, error.lossCause);
      case 'claim-timeout':
        return visit.claims && elapsed >= visit.claimTimeoutMs - 2;
      case 'claim-failed':
        return (
          visit.claims &&
          error.cause instanceof GuardError &&
          (error.cause.code === 'stale-token' ||
            // A guard that was slow to promise has been asked to accept nothing more meanwhile.
            (error.cause.code === 'sealed' && mayBeCapped(attempt)))
        );
      case 'limit-exceeded':
        return true;
      case 'invalid-option':
        return this.#isOfOtherLimit(visit);
      case 'closed':
        return seat.closing;
      default:
        return false;
    }
  }

  /** Whether etcd has another number of permits than the visitor believes. */
  #isOfOtherLimit({ target }: Visit): boolean {
    if (target.kind !== 'semaphore') return false;
    const permits = this.#observer.permits.get(`semaphore/${target.name}`);
    return permits !== undefined && permits !== target.permits;
  }

  #mayHaveLost(attempt: Attempt, cause: LossCause): boolean {
    const { visit, process, startedAt, seat } = attempt;
    const gone = this.#observer.wasRemovedFromOutside(queuesOf(visit.target), process.name, startedAt);
    switch (cause) {
      case 'unconfirmed':
      case 'expired':
        return true;
      case 'closed':
        // A lease of its own is given back with the hold.
        return seat.closing || (visit.ownTtlMs !== undefined && mayBeCapped(attempt));
      case 'revoked':
        return this.#observer.wasRevokedOutside(process.name) || process.wasSuspended;
      case 'key-deleted':
      case 'foreign-write':
        return gone;
      case 'max-hold':
        return mayBeCapped(attempt);
      default:
        return false;
    }
  }
}

/** Whether it may have held for all of its `maxHoldMs` while the guards were asked and the lease was renewed. */
function mayBeCapped({ visit, process, startedAtOwnTime }: Attempt): boolean {
  return process.now() - startedAtOwnTime >= (visit.maxHoldMs ?? Number.POSITIVE_INFINITY) - 2;
}
