import type { FencingToken } from './fencing-token.ts';

/**
 * Everything a guard can answer instead of "applied":
 *
 * | code | meaning |
 * |---|---|
 * | `stale-token` | a newer token was claimed or used: this holder has been superseded |
 * | `sealed` | this hold was finished (released) and promised to write nothing more |
 * | `conflicting-token` | same revision, other acquisition: etcd's history was rewritten |
 * | `foreign-lineage` | the token comes from another etcd history; an operator must `rebase` the guard |
 * | `unclaimed` | `requireClaim` is on and this token never claimed the resource |
 * | `unverified` | the guard asks etcd about tokens new to it, and etcd knows no such grant: forged, or ended |
 * | `retry` | the storage asks to run the same call again (serialization failure, deadlock); nothing applied |
 * | `unavailable` | the storage refused or could not be reached; nothing applied |
 * | `timeout` | waited longer than the guard's own limit; nothing applied |
 * | `unknown` | the reply was lost: applied or not, nobody can say. Never reported as stale |
 * | `not-confirmed` | a `rebase` named another state than the guard has; nothing was changed |
 * | `not-migrated` | the storage lacks the guard's table or record: never made, or lost |
 * | `invalid-token`, `invalid-option` | the call was refused before anything was sent |
 */
export type GuardErrorCode =
  | 'stale-token'
  | 'sealed'
  | 'conflicting-token'
  | 'foreign-lineage'
  | 'unclaimed'
  | 'unverified'
  | 'retry'
  | 'unavailable'
  | 'timeout'
  | 'unknown'
  | 'not-confirmed'
  | 'not-migrated'
  | 'invalid-token'
  | 'invalid-option';

/**
 * What became of the effect: `rejected` (a guard decided against the token), `failed` (not applied, for a
 * reason that says nothing about the token), `retry` (not applied, run it again), `unknown`.
 */
export type GuardOutcome = 'rejected' | 'failed' | 'retry' | 'unknown';

const OUTCOMES: Readonly<Record<GuardErrorCode, GuardOutcome>> = {
  'stale-token': 'rejected',
  sealed: 'rejected',
  'conflicting-token': 'rejected',
  'foreign-lineage': 'rejected',
  unclaimed: 'rejected',
  unverified: 'rejected',
  retry: 'retry',
  unavailable: 'failed',
  timeout: 'failed',
  unknown: 'unknown',
  'not-confirmed': 'rejected',
  'not-migrated': 'failed',
  'invalid-token': 'failed',
  'invalid-option': 'failed',
};

export interface GuardErrorOptions {
  readonly cause?: unknown;
  /** The resource whose guard answered. */
  readonly resource?: string | undefined;
  /** The token that was presented. */
  readonly token?: FencingToken | undefined;
  /** The token the guard holds to, where it told. */
  readonly current?: FencingToken | undefined;
}

const BRAND = Symbol.for('@lockkeeper/fencing/GuardError');

/**
 * The one error class of guards. `code` is a closed set, `outcome` says what became of the effect.
 * `instanceof` also holds for errors made by another installed copy of this package.
 */
export class GuardError extends Error {
  override readonly name = 'GuardError';
  readonly code: GuardErrorCode;
  readonly resource: string | undefined;
  readonly token: FencingToken | undefined;
  readonly current: FencingToken | undefined;

  constructor(code: GuardErrorCode, message: string, options: GuardErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.resource = options.resource;
    this.token = options.token;
    this.current = options.current;
    Object.defineProperty(this, BRAND, { value: true });
  }

  get outcome(): GuardOutcome {
    return OUTCOMES[this.code];
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}
