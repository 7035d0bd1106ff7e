import { type Clock, sleep } from './clock.ts';
import { type AbortSignalLike, unlessAborted } from './signals.ts';

/** In line, beyond which callers are told to come again: a flood must not grow the process either. */
const MAX_WAITING = 100;

/** Lets so many through at once, and so many a second in the long run; the others stand in line. */
export class LookupGate {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #line: (() => void)[] = [];
  #free: number;
  #waiting = 0;
  /** When the next one may begin if a second's worth had not been saved up. */
  #due = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, maxConcurrent: number, maxPerSecond: number) {
    this.#clock = clock;
    this.#free = maxConcurrent;
    this.#intervalMs = 1_000 / maxPerSecond;
  }

  /** @returns what gives the turn back. Rejects with the signal's reason. */
  async enter(signal: AbortSignalLike, busy: () => Error): Promise<() => void> {
    const atOnce = this.#free > 0 && this.#due <= this.#clock.now();
    if (!atOnce && this.#waiting >= MAX_WAITING) throw busy();
    this.#waiting += atOnce ? 0 : 1;
    try {
      await this.#turn(signal);
    } finally {
      this.#waiting -= atOnce ? 0 : 1;
    }
    return () => this.#give();
  }

  /** Takes what is to be had at once before it waits for anything. */
  async #turn(signal: AbortSignalLike): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#queue(signal);
    const now = this.#clock.now();
    const due = Math.max(this.#due, now - 1_000);
    this.#due = due + this.#intervalMs;
    if (due <= now) return;
    try {
      await sleep(this.#clock, due - now, { signal });
    } catch (error) {
      // Unused, so it is the next one's: else a flood of those who give up would put everybody off for ever.
      this.#due -= this.#intervalMs;
      this.#give();
      throw error;
    }
  }

  async #queue(signal: AbortSignalLike): Promise<void> {
    let own = (): void => {};
    const called = new Promise<void>((resolve) => {
      own = resolve;
    });
    this.#line.push(own);
    try {
      await unlessAborted(signal, called);
    } catch (error) {
      const place = this.#line.indexOf(own);
      if (place >= 0) this.#line.splice(place, 1);
      else this.#give();
      throw error;
    }
  }

  #give(): void {
    const next = this.#line.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
