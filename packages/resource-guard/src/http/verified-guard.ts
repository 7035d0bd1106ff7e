// A guard that serves others: no token advances it before a verifier has found its grant.
import {
  type FencingToken,
  type Guard,
  type GuardAdmin,
  type GuardCallOptions,
  GuardError,
  type RunOptions,
  type TokenVerifier,
} from '@lockkeeper/fencing';
import { checkEffect, invalid } from '../options.ts';
import { Recent } from '../recent.ts';
import { checkGuard } from './fencing.ts';

/**
 * Puts `verify` before every advance of `guard`, so that an invented token of a high revision cannot shut the
 * holder out. `verify` is `keeper.tokenVerifier(lockName)`, or `etcdTokenVerifier`.
 *
 * The guard itself is asked first, in a way that cannot advance it. So a token in force needs no verifier and
 * goes on working while etcd is down; an older one is simply stale; only what would be new is looked up. What the
 * verifier does not find is `unverified`; while it cannot tell, `unavailable` or `retry`.
 *
 * A reader's token below another reader's is accepted without an advance, so an invented one would be too. Each
 * reader's token is therefore looked up once by this object, before its first use, and then remembered: the newest
 * 1,000 of them.
 *
 * Requests of a token in force cost nothing more; a claim one empty run and one lookup. Other verbs that a guard
 * may have (`enter`, `query`) are not covered. `rebase` stays the operator's and is not verified.
 *
 * @throws GuardError `invalid-option`
 */
export function verifiedGuard<Handle>(
  guard: Guard<Handle> & GuardAdmin,
  verify: TokenVerifier,
): Guard<Handle> & GuardAdmin;
export function verifiedGuard<Handle>(guard: Guard<Handle>, verify: TokenVerifier): Guard<Handle>;
export function verifiedGuard<Handle>(
  guard: Guard<Handle> & Partial<GuardAdmin>,
  verify: TokenVerifier,
): Guard<Handle> & Partial<GuardAdmin> {
  checkGuard(guard);
  if (typeof verify !== 'function') throw invalid('verify', verify, 'expected a function');
  const verified = new VerifiedGuard(guard, verify);
  const { inspect, rebase } = guard;
  if (inspect === undefined || rebase === undefined) return verified;
  return Object.assign(verified, { inspect: inspect.bind(guard), rebase: rebase.bind(guard) });
}

/** How many readers are remembered. Another one than those is looked up again. */
const MAX_READERS = 1_000;

class VerifiedGuard<Handle> implements Guard<Handle> {
  readonly resource: string;
  readonly #guard: Guard<Handle>;
  readonly #verify: TokenVerifier;
  /** Readers' tokens that were verified. */
  readonly #readers = new Recent(MAX_READERS);

  constructor(guard: Guard<Handle>, verify: TokenVerifier) {
    this.resource = guard.resource;
    this.#guard = guard;
    this.#verify = verify;
  }

  async claim(token: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    await this.#admit(token, options);
    await this.#guard.claim(token, options);
  }

  async seal(token: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    try {
      await this.#admit(token, options);
    } catch (error) {
      const over = error instanceof GuardError && (error.code === 'stale-token' || error.code === 'sealed');
      if (!over) throw error;
    }
    await this.#guard.seal(token, options);
  }

  async run<T>(
    token: FencingToken,
    effect: (handle: Handle) => T | Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    checkEffect(effect);
    if (this.#isUnknownReader(token)) await this.#admit(token, options);
    let ran = false;
    const observed = (handle: Handle) => {
      ran = true;
      return effect(handle);
    };
    try {
      return await this.#guard.run(token, observed, { ...options, requireClaim: true });
    } catch (error) {
      if (ran || !isNew(error) || options.requireClaim === true) throw error;
    }
    await this.#verified(token, options.signal);
    return this.#guard.run(token, effect, options);
  }

  #isUnknownReader(token: FencingToken): boolean {
    return token.shared && !this.#readers.has(`${token}`);
  }

  /** Passes for the token in force, and for one that is new and verified; throws what the guard says of others. */
  async #admit(token: FencingToken, { signal }: GuardCallOptions): Promise<void> {
    try {
      await this.#guard.run(token, () => undefined, { signal, requireClaim: true });
      if (!this.#isUnknownReader(token)) return;
    } catch (error) {
      if (!isNew(error)) throw error;
    }
    await this.#verified(token, signal);
    if (token.shared) this.#readers.add(`${token}`);
  }

  async #verified(token: FencingToken, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#verify(token, { signal });
    } catch (cause) {
      if (!(cause instanceof GuardError)) throw cause;
      const { resource } = this;
      const what = `guard "${resource}" refused token ${token}: ${cause.message}`;
      throw new GuardError(cause.code, what, { cause, resource, token });
    }
  }
}

/** What a guard says of a token that it would have to advance to. */
function isNew(error: unknown): boolean {
  return error instanceof GuardError && error.code === 'unclaimed';
}
