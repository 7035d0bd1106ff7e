// A claim needs a read and a write with no other write in between. A writer that knows the latest ETag writes
// again within one round trip, so one that never paused would hold off every claim: now and then it pauses.
import type { Budget } from './budget.ts';

const STREAK_MS = 1_000;
const LONGEST_PAUSE_MS = 1_000;

export class Pace {
  #streakSinceMs = 0;
  #endedMs = Number.NEGATIVE_INFINITY;
  #writeMs = 0;

  /** Two round trips: enough for another's read and write, whatever it was at. */
  get #pauseMs(): number {
    return Math.min(2 * this.#writeMs + 2, LONGEST_PAUSE_MS);
  }

  /** Does one write of values, after a pause where there was none for a while. */
  async write<T>(budget: Budget, send: () => Promise<T>): Promise<T> {
    const now = performance.now();
    if (now - this.#endedMs >= this.#pauseMs) this.#streakSinceMs = now;
    if (now - this.#streakSinceMs >= STREAK_MS) {
      await budget.pause(this.#pauseMs);
      this.#streakSinceMs = performance.now();
    }
    const startedMs = performance.now();
    try {
      return await send();
    } finally {
      this.#endedMs = performance.now();
      this.#writeMs += (this.#endedMs - startedMs - this.#writeMs) / 8;
    }
  }

  /** Others write too, and perhaps one of them is a claim: it does not wait, so it comes first. */
  async giveWay(budget: Budget): Promise<void> {
    await budget.pause(this.#pauseMs * (0.5 + Math.random()));
  }
}
