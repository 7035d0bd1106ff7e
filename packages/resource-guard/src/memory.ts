// The guard for what lives in this process; also the plainest picture of what every other guard does.
import {
  decideGuard,
  type FencingToken,
  type Guard,
  type GuardAdmin,
  type GuardCallOptions,
  type GuardState,
  type RunOptions,
} from '@lockkeeper/fencing';
import { untilAborted } from './abort.ts';
import { DecidingGuard, type Step, spoilsNoRun } from './deciding-guard.ts';
import { EffectScope, type Held } from './effect-scope.ts';
import { checkEffect, checkFlag, checkToken } from './options.ts';
import { Turnstile } from './turnstile.ts';

export interface MemoryGuardOptions {
  /** The name of what is guarded: non-empty, at most 1,024 bytes of UTF-8. */
  readonly resource: string;
  /** Reject tokens that never claimed with `unclaimed`. Default `false`. */
  readonly requireClaim?: boolean | undefined;
}

/**
 * A guard for things in the memory of this process, and for tests. Its state is this object: share the
 * object, not the resource name, between those who write.
 *
 * Runs of one holder overlap. A claim (or a seal, or the first run of a newer token) waits until the runs
 * in flight have settled and is not overtaken by later ones; that of a reader only for those of writers.
 *
 * **Memory has no rollback**: when `effect` throws, what it changed before stays changed. And a signal
 * that aborts stops only the waiting: an effect that has begun goes on, keeps its turn until it settles,
 * and the call rejects with the signal's reason.
 *
 * Inside an effect the same guard would wait for itself, so there its calls are refused with `invalid-option`:
 * write directly instead.
 *
 * @throws GuardError `invalid-option`
 */
export function memoryGuard(options: MemoryGuardOptions): Guard<undefined> & GuardAdmin {
  return new MemoryGuard(options);
}

class MemoryGuard extends DecidingGuard implements Guard<undefined>, GuardAdmin {
  readonly #requireClaim: boolean;
  readonly #turnstile = new Turnstile();
  readonly #held: Held = { source: this, lock: undefined };
  #state: GuardState | undefined;

  constructor(options: MemoryGuardOptions) {
    super(options?.resource);
    this.#requireClaim = checkFlag('requireClaim', options.requireClaim, false);
  }

  async run<T>(
    presented: FencingToken,
    effect: (handle: undefined) => T | Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const token = checkToken(presented);
    checkEffect(effect);
    EffectScope.refuse(this.#held, this.resource);
    let requireClaim = checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    for (;;) {
      const leave = await this.#turnstile.enter('shared', options.signal);
      const decision = decideGuard('run', this.resource, this.#state, token, { requireClaim });
      if (decision.verdict === 'accept' && decision.next === undefined) {
        if (options.signal?.aborted) {
          leave();
          throw options.signal.reason;
        }
        const scope = new EffectScope(this.#held);
        const settled = scope
          .run(() => effect(undefined))
          .finally(() => {
            scope.end();
            leave();
          });
        return untilAborted(settled, options.signal);
      }
      leave();
      if (decision.verdict === 'reject') throw decision.error;
      // Newer than the state: older runs may be in flight beside us, so advance like a claim does.
      await this.take(this.stepOf('claim', token, options.signal));
      requireClaim = true;
    }
  }

  async inspect(options: GuardCallOptions = {}): Promise<GuardState | undefined> {
    options.signal?.throwIfAborted();
    return this.#state;
  }

  protected async take(step: Step): Promise<void> {
    EffectScope.refuse(this.#held, this.resource);
    if (step.token.shared && (await this.#takeAs('shared', step))) return;
    await this.#takeAs('exclusive', step);
  }

  /** @returns whether it was taken: not beside runs that it might spoil. */
  async #takeAs(mode: 'exclusive' | 'shared', { signal, decide }: Step): Promise<boolean> {
    const leave = await this.#turnstile.enter(mode, signal);
    try {
      const decision = decide(this.#state);
      if (mode === 'shared' && !spoilsNoRun(this.#state, decision)) return false;
      if (decision.verdict === 'reject') throw decision.error;
      if (decision.next !== undefined) this.#state = decision.next;
      return true;
    } finally {
      leave();
    }
  }
}
