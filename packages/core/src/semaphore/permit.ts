import type { Compare } from '../coordinator/coordinator.ts';
import type { Hold, HoldStanding, ReleaseAnswer } from '../lock/hold.ts';
import { PermitToken } from './permit-token.ts';

/** Proof of one permit: a hold on one slot of a semaphore. */
export class Permit implements AsyncDisposable {
  /** The slot, from 0 to one less than there are permits: which of the things that are shared is ours. */
  readonly slot: number;
  readonly token: PermitToken;
  readonly #hold: Hold;

  /** @internal */
  constructor(hold: Hold, slot: number) {
    this.slot = slot;
    this.token = new PermitToken(slot, hold.token);
    this.#hold = hold;
  }

  /** The semaphore's name. */
  get name(): string {
    return this.#hold.name;
  }

  /** As {@link Hold.standing}. */
  get standing(): HoldStanding {
    return this.#hold.standing;
  }

  /** As {@link Hold.signal}. */
  get signal(): AbortSignal {
    return this.#hold.signal;
  }

  /** As {@link Hold.ttlMs}. */
  get ttlMs(): number {
    return this.#hold.ttlMs;
  }

  /** As {@link Hold.remainingMs}. */
  remainingMs(): number {
    return this.#hold.remainingMs();
  }

  /** As {@link Hold.assertHeld}. */
  assertHeld(): void {
    this.#hold.assertHeld();
  }

  /** As {@link Hold.compare}: the place in the queue, the slot and the history. */
  compare(): readonly Compare[] {
    return this.#hold.compare();
  }

  /** Gives the permit back; as {@link Hold.release}. Calling it twice gives back one permit. */
  release(): Promise<ReleaseAnswer> {
    return this.#hold.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}
