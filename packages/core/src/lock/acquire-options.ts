import type { Claimable } from '@lockkeeper/fencing';
import { checkObject, duration, invalidOption, optionalDuration, optionalSignal } from '../validation.ts';
import type { HoldOptions } from './hold.ts';
import type { ReleaseRequest } from './release-request.ts';

/** How a lock of this keeper is held. Other keepers may hold the same lock in another way. */
export interface LockOptions {
  /**
   * The time-to-live of this lock's leases, in milliseconds, as `connect` takes it. Given, every hold has a lease
   * of its own. Default: the keeper's.
   */
  readonly ttlMs?: number | undefined;
  /**
   * Whether every hold has a lease of its own, so that none is lost with another's: a lease, its renewals and one
   * more round trip for each. Default: only where `ttlMs` is given.
   */
  readonly isolated?: boolean | undefined;
}

export interface TryAcquireOptions {
  /** Cancels the attempt, with the signal's reason. Has no effect on a hold that was granted. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Guards that must promise to refuse every older token before the acquire resolves. Without this a guard
   * learns of the hand-over only with the new holder's first request. Default: none.
   */
  readonly claims?: readonly Claimable[] | undefined;
  /** How long the guards may take to promise, and at a release to seal. Milliseconds, default 10,000. */
  readonly claimTimeoutMs?: number | undefined;
  /** Whether a release asks the `claims` to accept nothing more of this hold. Default `true`. */
  readonly sealOnRelease?: boolean | undefined;
  /**
   * Chubby's lock-delay, for a resource that no guard protects: how long this acquire waits, holding the lock, where
   * the last holder vanished instead of releasing it; milliseconds. It needs one more transaction, and works only
   * among those who all ask for it. It makes a late write unlikely, and stops none: only a guard does. Default: none.
   * Of a semaphore it goes by the slot. Refused for a read/write lock, whose readers hold together.
   */
  readonly lockDelayMs?: number | undefined;
  /**
   * How long the lock stays taken at least, in milliseconds from the grant: `release` seals at once and waits for
   * the rest. Closing the keeper, or a lost lease, ends it sooner. Default 0.
   */
  readonly minHoldMs?: number | undefined;
  /**
   * How long the lock is held at most, in milliseconds from the grant, however long its lease is renewed. Then the
   * hold is lost with the cause `max-hold`: its signal aborts, its guards are sealed and the lock is given back,
   * whether the work has stopped or not. Default: no limit.
   */
  readonly maxHoldMs?: number | undefined;
}

export interface AcquireOptions extends TryAcquireOptions {
  /**
   * How long to queue, in milliseconds; 0: not at all. Ends with the grant and has nothing to do with how
   * long the lock is held. Default: no limit.
   */
  readonly waitTimeoutMs?: number | undefined;
}

/** The options of one acquire with every default filled in and every value checked. */
export interface Attempt {
  readonly terms: HoldOptions;
  readonly lockDelayMs: number | undefined;
  readonly signal: AbortSignal | undefined;
  readonly waitTimeoutMs: number | undefined;
}

/** @throws LockkeeperError `invalid-option` */
export function resolveAttempt(options: AcquireOptions): Attempt {
  checkObject('options', options);
  if (isSilent(options, WAYS) && isSilent(options, TERMS)) return USUAL_ATTEMPT;
  return {
    terms: isSilent(options, TERMS) ? USUAL_TERMS : resolveTerms(options),
    signal: optionalSignal('signal', options.signal),
    waitTimeoutMs: optionalDuration('waitTimeoutMs', options.waitTimeoutMs, { min: 0 }),
    lockDelayMs: optionalDuration('lockDelayMs', options.lockDelayMs, { min: 0 }),
  };
}

/** Whether nothing is said of any of these. */
function isSilent(options: AcquireOptions, fields: readonly (keyof AcquireOptions)[]): boolean {
  for (const field of fields) if (options[field] !== undefined) return false;
  return true;
}

const NO_CLAIMS: readonly Claimable[] = [];

/** Most holds are asked for without a word on how: all of them share these. */
const USUAL_TERMS: HoldOptions = {
  claims: NO_CLAIMS,
  claimTimeoutMs: 10_000,
  sealOnRelease: true,
  minHoldMs: 0,
  maxHoldMs: undefined,
};

const USUAL_ATTEMPT: Attempt = {
  terms: USUAL_TERMS,
  signal: undefined,
  waitTimeoutMs: undefined,
  lockDelayMs: undefined,
};

const TERMS = ['claims', 'claimTimeoutMs', 'sealOnRelease', 'minHoldMs', 'maxHoldMs'] as const;
const WAYS = ['signal', 'waitTimeoutMs', 'lockDelayMs'] as const;

function resolveTerms(options: AcquireOptions): HoldOptions {
  const { sealOnRelease = true } = options;
  const minHoldMs = duration('minHoldMs', options.minHoldMs ?? 0, { min: 0 });
  if (typeof sealOnRelease !== 'boolean')
    throw invalidOption('sealOnRelease', sealOnRelease, 'expected a boolean');
  return {
    claims: checkClaims(options.claims),
    claimTimeoutMs: duration('claimTimeoutMs', options.claimTimeoutMs ?? USUAL_TERMS.claimTimeoutMs, {
      min: 1,
    }),
    sealOnRelease,
    minHoldMs,
    maxHoldMs: optionalDuration('maxHoldMs', options.maxHoldMs, { min: Math.max(minHoldMs, 1) }),
  };
}

/** @throws LockkeeperError `invalid-option` */
export function checkClaims(claims: unknown = []): readonly Claimable[] {
  if (!Array.isArray(claims)) throw invalidOption('claims', claims, 'expected an array of guards');
  for (const [index, guard] of claims.entries()) {
    if (typeof guard?.claim !== 'function' || typeof guard?.seal !== 'function') {
      throw invalidOption(`claims[${index}]`, guard, 'expected a guard with claim() and seal()');
    }
  }
  return claims.length === 0 ? NO_CLAIMS : [...claims];
}

export interface RequestReleaseOptions {
  /** For the holder, and whoever reads its logs. */
  readonly reason: string;
  /** How long you are ready to wait, in milliseconds; told to the holder, and not enforced. Default: unsaid. */
  readonly deadlineMs?: number | undefined;
}

/** @throws LockkeeperError `invalid-option` */
export function resolveRequest(options: RequestReleaseOptions, by: string): ReleaseRequest {
  checkObject('options', options);
  const { reason } = options;
  if (typeof reason !== 'string' || reason === '')
    throw invalidOption('reason', reason, 'expected a non-empty string');
  return { reason, deadlineMs: optionalDuration('deadlineMs', options.deadlineMs, { min: 0 }), by };
}
