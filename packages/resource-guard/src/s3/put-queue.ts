// Puts that wait for their turn together become one write: all of them are in flight at once, so any order is
// a right one, and of all but the last nothing could ever have been seen.
import type { FencingToken } from '@lockkeeper/fencing';
import { untilAborted } from '../abort.ts';
import type { Turnstile } from '../turnstile.ts';
import type { Budget } from './budget.ts';
import type { GuardedBytes } from './record.ts';

export interface Put {
  readonly token: FencingToken;
  readonly value: GuardedBytes;
  readonly requireClaim: boolean;
}

interface Waiting extends Put {
  /** How the write went that carries it; `undefined` while it can still be withdrawn. */
  carried: Promise<void> | undefined;
}

export class PutQueue {
  readonly #turnstile: Turnstile;
  readonly #write: (put: Put) => Promise<void>;
  #waiting: Waiting[] = [];

  /** @param write - carries one put through, whoever gives up waiting for it. */
  constructor(turnstile: Turnstile, write: (put: Put) => Promise<void>) {
    this.#turnstile = turnstile;
    this.#write = write;
  }

  /**
   * Settles like the write that carries `put`. When the budget's signal aborts before, rejects with its reason,
   * or with what `lost` gives where the write had been begun.
   */
  async add(put: Put, budget: Budget, lost: (reason: unknown) => Error): Promise<void> {
    const waiting: Waiting = { ...put, carried: undefined };
    this.#waiting.push(waiting);
    try {
      const leave = await this.#turnstile.enter('exclusive', budget.signal);
      if (waiting.carried === undefined) this.#carry(waiting, leave);
      else leave();
      await untilAborted(waiting.carried ?? Promise.resolve(), budget.signal);
    } catch (error) {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      const gaveUp = budget.signal.aborted && error === budget.signal.reason;
      throw gaveUp && waiting.carried !== undefined ? lost(error) : error;
    }
  }

  #carry(first: Waiting, leave: () => void): void {
    const joins = (other: Waiting) =>
      `${other.token}` === `${first.token}` && other.requireClaim === first.requireClaim;
    const batch = this.#waiting.filter(joins);
    this.#waiting = this.#waiting.filter((other) => !joins(other));
    const carried = this.#write(batch.at(-1) ?? first).finally(leave);
    for (const each of batch) each.carried = carried;
  }
}
