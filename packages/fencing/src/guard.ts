import type { FencingToken } from './fencing-token.ts';

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
   *
   * A reader below a newer reader is accepted all the same: a guard does not remember every reader. Writers older than
   * the newer one are refused already, so nothing of theirs can follow what it reads.
   */
  readonly requireClaim?: boolean | undefined;
}

/** The part of a guard that a lock needs for its hand-over: `acquire({ claims: [guard] })`. */
export interface Claimable {
  /** The name of what is guarded. One resource is bound to one lock name. */
  readonly resource: string;

  /**
   * The promise to accept nothing older than `token`, durable when this resolves; of a reader (a shared token), no
   * older writer. A claim is a committed step of its own: read data only after it.
   * @throws {@link GuardError}
   */
  claim(token: FencingToken, options?: GuardCallOptions): Promise<void>;

  /**
   * The promise to accept nothing more under `token`, which closes the window between a release and the
   * next claim. A no-op where a newer token is already in force; repeating it is harmless. Of readers only the newest
   * is kept: a late call of another one is accepted until the next writer claims.
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
   * @param token - of a hold under the new lineage; older tokens of it are stale from then on, and where it is a
   * reader's older writers.
   * @throws {@link GuardError} `not-confirmed` where `from` is not what the guard remembers; `invalid-option`
   * within one lineage, where tokens are ordered and `claim` decides.
   */
  rebase(token: FencingToken, options: RebaseOptions): Promise<void>;
}

/** A token that a guard has accepted, and whether its holder promised to write nothing more. */
export interface GuardMark {
  readonly token: FencingToken;
  readonly sealed: boolean;
}

/** What a guard remembers of one resource: the highest token it has accepted, which never goes down. */
export interface GuardState extends GuardMark {
  /** While `token` is a reader's: the last writer's before it, by which older readers are judged. */
  readonly writer?: GuardMark | undefined;
}
