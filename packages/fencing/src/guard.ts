import { GuardError } from './errors.ts';
import { compareTokens, type FencingToken } from './fencing-token.ts';

/** Options of one guard call. */
export interface GuardCallOptions {
  /**
   * Stops the waiting. A call that had already been sent may still take effect: it then rejects with
   * {@link GuardError} `unknown` rather than with the signal's reason.
   */
  readonly signal?: AbortSignal | undefined;
}

export interface RunOptions extends GuardCallOptions {
  /**
   * Reject a token that never claimed this resource with `unclaimed`, instead of advancing to it.
   * Default: the guard's own setting, which is `false`.
   */
  readonly requireClaim?: boolean | undefined;
}

/** The part of a guard that a lock needs for its hand-over: `acquire({ claims: [guard] })`. */
export interface Claimable {
  /** The name of what is guarded. One resource is bound to one lock name. */
  readonly resource: string;

  /**
   * The promise to accept nothing older than `token`, durable when this resolves. A claim is a committed
   * step of its own: read data only after it.
   * @throws {@link GuardError}
   */
  claim(token: FencingToken, options?: GuardCallOptions): Promise<void>;

  /**
   * The promise to accept nothing more under `token`, which closes the window between a release and the
   * next claim. A no-op where a newer token is already in force; repeating it is harmless.
   * @throws {@link GuardError}
   */
  seal(token: FencingToken, options?: GuardCallOptions): Promise<void>;
}

/**
 * Checks tokens in the same atomic step as the effect. Every verb is atomic; `run` is atomic with what
 * the effect does through the handle it is given, and with nothing else.
 *
 * Fencing orders generations of holders, not one holder's own writes: a late duplicate of the same
 * holder's request passes. Where that matters, add an idempotency key or compare the data written.
 *
 * @typeParam Handle - what the effect writes through: a transaction, a client, nothing.
 */
export interface Guard<Handle = unknown> extends Claimable {
  /**
   * Runs `effect` under `token`, or rejects without any effect.
   * @throws {@link GuardError}, or whatever `effect` threw, untouched, after its writes were undone.
   */
  run<T>(token: FencingToken, effect: (handle: Handle) => T | Promise<T>, options?: RunOptions): Promise<T>;
}

/** Options of {@link GuardAdmin.rebase}. */
export interface RebaseOptions extends GuardCallOptions {
  /** The token the operator saw in force, from {@link GuardAdmin.inspect}: the explicit confirmation. */
  readonly from: FencingToken;
}

/** What operators need beside the verbs. Every guard of Lockkeeper that keeps its own state has it. */
export interface GuardAdmin {
  /**
   * What the guard remembers, `undefined` where no token has touched the resource yet. For eyes and tools:
   * it may have changed by the time it arrives, so nothing is decided by it.
   * @throws {@link GuardError}
   */
  inspect(options?: GuardCallOptions): Promise<GuardState | undefined>;

  /**
   * Adopts the lineage of `token` and puts `token` in force, whose revisions cannot be compared with the old
   * ones: the way out of `foreign-lineage`, for operators who know that no holder under the old lineage is
   * still at work. Repeating it is harmless.
   *
   * @param token - of a hold under the new lineage; older tokens of it are stale from then on.
   * @throws {@link GuardError} `not-confirmed` where `from` is not what the guard remembers; `invalid-option`
   * within one lineage, where tokens are ordered and `claim` decides.
   */
  rebase(token: FencingToken, options: RebaseOptions): Promise<void>;
}

/** What a guard remembers of one resource. */
export interface GuardState {
  readonly token: FencingToken;
  readonly sealed: boolean;
}

export type GuardVerb = 'claim' | 'run' | 'seal';

/** `accept` with the state to store (`undefined`: leave it as it is), or `reject` with the reason. */
export type GuardDecision =
  | { readonly verdict: 'accept'; readonly next: GuardState | undefined }
  | { readonly verdict: 'reject'; readonly error: GuardError };

/**
 * The table that every guard implements, as a pure function. A storage that decides in its own language
 * (SQL, Lua) must agree with it; the contract suite checks that.
 *
 * | verb | token below | equal, same acquisition | above, or no state yet |
 * |---|---|---|---|
 * | `claim` | `stale-token` | ok, unless sealed | advance, unseal |
 * | `run` | `stale-token` | ok, unless sealed | advance; with `requireClaim`: `unclaimed` |
 * | `seal` | no-op | sealed | advance and seal |
 *
 * Equal revision, other acquisition: `conflicting-token`. Other lineage: `foreign-lineage`.
 */
export function decideGuard(
  verb: GuardVerb,
  resource: string,
  state: GuardState | undefined,
  token: FencingToken,
  options: { readonly requireClaim?: boolean | undefined } = {},
): GuardDecision {
  const reject = (
    code: 'stale-token' | 'sealed' | 'conflicting-token' | 'foreign-lineage' | 'unclaimed',
  ) => ({
    verdict: 'reject' as const,
    error: refusal(code, resource, token, state?.token),
  });
  const order = state === undefined ? 'above' : compareTokens(token, state.token);
  switch (order) {
    case 'foreign':
      return reject('foreign-lineage');
    case 'conflicting':
      return reject('conflicting-token');
    case 'below':
      return verb === 'seal' ? { verdict: 'accept', next: undefined } : reject('stale-token');
    case 'same':
      if (verb === 'seal') return { verdict: 'accept', next: { token, sealed: true } };
      return state?.sealed === true ? reject('sealed') : { verdict: 'accept', next: undefined };
    case 'above':
      if (verb === 'run' && options.requireClaim === true) return reject('unclaimed');
      return { verdict: 'accept', next: { token, sealed: verb === 'seal' } };
  }
}

/**
 * {@link GuardAdmin.rebase} as a pure function: the one way over the border between two lineages. Only the
 * state that was confirmed may be replaced, so two operators cannot undo each other's work.
 */
export function decideRebase(
  resource: string,
  state: GuardState | undefined,
  token: FencingToken,
  from: FencingToken,
): GuardDecision {
  if (token.lineage === from.lineage) {
    const what = `from is ${from}, of the same lineage as the token ${token}`;
    const error = new GuardError('invalid-option', `guard "${resource}": ${what}; claim instead`, {
      resource,
      token,
    });
    return { verdict: 'reject', error };
  }
  const at = (expected: FencingToken) => state !== undefined && `${state.token}` === `${expected}`;
  if (at(token)) return { verdict: 'accept', next: undefined };
  if (at(from)) return { verdict: 'accept', next: { token, sealed: false } };
  return { verdict: 'reject', error: refusal('not-confirmed', resource, token, state?.token) };
}

const REASONS = {
  'stale-token': 'a newer token is in force',
  sealed: 'this hold was released and its token sealed',
  'conflicting-token':
    'the same revision was granted to another acquisition, so the etcd history was rewritten',
  'foreign-lineage': 'the token belongs to another etcd history; rebase the guard to adopt it',
  unclaimed: 'this token never claimed the resource, and here it has to',
  'not-confirmed': 'the state is not the one that was confirmed; inspect the guard again',
} as const;

/** The error of a refused token, worded alike in every storage. */
export function refusal(
  code: keyof typeof REASONS,
  resource: string,
  token: FencingToken,
  current: FencingToken | undefined,
): GuardError {
  const against = current === undefined ? '' : ` (in force: ${current})`;
  return new GuardError(code, `guard "${resource}" refused token ${token}: ${REASONS[code]}${against}`, {
    resource,
    token,
    current,
  });
}
