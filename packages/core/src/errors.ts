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
 * | `claim-timeout` | a guard did not promise within `claimTimeoutMs`; the lock was released again |
 * | `claim-failed` | a guard refused or failed; the lock was released again, the guard's error is the `cause` |
 * | `not-reentrant` | the lock is already held by the surrounding `using` callback |
 * | `closed` | the keeper (or the coordinator) was closed |
 * | `unreachable` | no endpoint answered in time; a write may or may not have been applied |
 * | `unauthenticated`, `permission-denied` | etcd refused the credentials, or the rights they carry |
 * | `lease-not-found` | etcd does not know the lease |
 * | `lease-exists` | etcd already has a lease of that id |
 * | `storage-full` | etcd's NOSPACE alarm is raised |
 * | `limit-exceeded` | etcd refused the size, the number of operations or the rate |
 * | `compacted` | the revisions asked for have been compacted away |
 * | `history-changed` | etcd's data were wiped, restored or rolled back; earlier tokens cannot be ordered |
 * | `unexpected-reply` | etcd answered something this version does not understand |
 */
export type LockkeeperErrorCode =
  | 'invalid-option'
  | 'wait-timeout'
  | 'lost-while-waiting'
  | 'lost'
  | 'released'
  | 'claim-timeout'
  | 'claim-failed'
  | 'not-reentrant'
  | 'closed'
  | 'unreachable'
  | 'unauthenticated'
  | 'permission-denied'
  | 'lease-not-found'
  | 'lease-exists'
  | 'storage-full'
  | 'limit-exceeded'
  | 'compacted'
  | 'history-changed'
  | 'unexpected-reply';

export interface LockkeeperErrorOptions {
  readonly cause?: unknown;
  /** Default: `unknown` for `unreachable`, `storage-full` and `unexpected-reply`, else `rejected`. */
  readonly outcome?: 'rejected' | 'unknown' | undefined;
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

  constructor(code: LockkeeperErrorCode, message: string, options: LockkeeperErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.outcome = options.outcome ?? (UNKNOWN.has(code) ? 'unknown' : 'rejected');
    Object.defineProperty(this, BRAND, { value: true });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}
