/**
 * Everything that can go wrong, as a closed set:
 *
 * | code | meaning |
 * |---|---|
 * | `invalid-option` | an argument was refused before anything was sent; the message names it and its value |
 * | `wait-timeout` | `waitTimeoutMs` passed while queued |
 * | `lost-while-waiting` | the lease or the queue key was gone before the lock was granted |
 * | `lost` | the lock was lost while held |
 * | `released` | the hold was already released by its owner |
 * | `suspect` | wall time ran ahead of the monotonic clock (a suspended machine?); a renewal that settles it is under way |
 * | `claim-timeout` | a guard did not promise within `claimTimeoutMs`; the lock was released again |
 * | `claim-failed` | a guard refused or failed; the lock was released again, the guard's error is the `cause` |
 * | `seal-failed` | a guard did not confirm that it accepts nothing more of a hold, so the hold was not broken |
 * | `drain-timeout` | the work of a lost term did not end in time |
 * | `not-reentrant` | the lock is already held by the surrounding `using` callback |
 * | `closed` | the keeper (or the coordinator) was closed |
 * | `unreachable` | no endpoint answered in time; a write may or may not have been applied |
 * | `unauthenticated`, `permission-denied` | etcd refused the credentials, or the rights they carry |
 * | `lease-not-found` | etcd does not know the lease |
 * | `lease-exists` | etcd already has a lease of that id |
 * | `storage-full` | etcd's NOSPACE alarm is raised |
 * | `invalid-request` | etcd refuses the request as it stands: an empty key, a key written twice in one transaction |
 * | `limit-exceeded` | etcd refused the size, the number of operations or the rate |
 * | `compacted` | the revisions asked for have been compacted away |
 * | `history-regressed` | etcd's data were wiped, restored or rolled back; earlier tokens cannot be ordered |
 * | `unexpected-reply` | etcd answered something this version does not understand |
 */
export type LockkeeperErrorCode =
  | 'invalid-option'
  | 'wait-timeout'
  | 'lost-while-waiting'
  | 'lost'
  | 'released'
  | 'suspect'
  | 'claim-timeout'
  | 'claim-failed'
  | 'seal-failed'
  | 'drain-timeout'
  | 'not-reentrant'
  | 'closed'
  | 'unreachable'
  | 'unauthenticated'
  | 'permission-denied'
  | 'lease-not-found'
  | 'lease-exists'
  | 'storage-full'
  | 'invalid-request'
  | 'limit-exceeded'
  | 'compacted'
  | 'history-regressed'
  | 'unexpected-reply';

/**
 * Why a hold ended without its owner's wish. The first group ends the session and every hold on it, the
 * second a single hold.
 *
 * | cause | meaning |
 * |---|---|
 * | `unconfirmed` | no renewal was confirmed in time; the lease may or may not still exist |
 * | `expired` | etcd answered that the lease is gone, after its time had run out |
 * | `revoked` | etcd answered that the lease is gone, before its time had run out: somebody revoked it |
 * | `history-regressed` | etcd's data were wiped, restored or rolled back |
 * | `unauthorized` | etcd refused the credentials until the lease had run out |
 * | `closed` | the keeper was closed |
 * | `key-deleted` | somebody deleted the lock's key |
 * | `foreign-write` | somebody overwrote the lock's key |
 * | `max-hold` | it had been held for `maxHoldMs` |
 */
export type LossCause =
  | 'unconfirmed'
  | 'expired'
  | 'revoked'
  | 'history-regressed'
  | 'unauthorized'
  | 'closed'
  | 'key-deleted'
  | 'foreign-write'
  | 'max-hold';

export interface LockkeeperErrorOptions {
  readonly cause?: unknown;
  /** Default: `unknown` for `unreachable`, `storage-full` and `unexpected-reply`, else `rejected`. */
  readonly outcome?: 'rejected' | 'unknown' | undefined;
  /** With `lost` and `lost-while-waiting`. */
  readonly lossCause?: LossCause | undefined;
  /** With `lost`, from `using`: what the callback returned before the loss was known. */
  readonly result?: unknown;
}

const UNKNOWN: ReadonlySet<LockkeeperErrorCode> = new Set([
  'unreachable',
  'storage-full',
  'unexpected-reply',
]);
const BRAND = Symbol.for('@lockkeeper/core/LockkeeperError');

/**
 * The one error class of this package. `instanceof` also holds for errors made by another installed copy.
 */
export class LockkeeperError extends Error {
  override readonly name: string = 'LockkeeperError';
  readonly code: LockkeeperErrorCode;
  /**
   * What became of the request: `rejected` certainly changed nothing, `unknown` may have been applied, now
   * or later. Unknown is never to be read as failure.
   */
  readonly outcome: 'rejected' | 'unknown';
  /** Why the lock was lost; only with `lost` and `lost-while-waiting`. */
  readonly lossCause: LossCause | undefined;
  /** What the callback of `using` returned although the lock was lost meanwhile; only with `lost`. */
  readonly result: unknown;

  constructor(code: LockkeeperErrorCode, message: string, options: LockkeeperErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.outcome = options.outcome ?? (UNKNOWN.has(code) ? 'unknown' : 'rejected');
    this.lossCause = options.lossCause;
    this.result = options.result;
    Object.defineProperty(this, BRAND, { value: true });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}
