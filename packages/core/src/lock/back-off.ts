import { type Clock, sleep } from '../clock.ts';

/** Growing pauses between repeats: 50 ms, doubling to a second, each shortened at random by up to a quarter. */
export class BackOff {
  readonly #clock: Clock;
  #next = 50;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rejects with the signal's reason when it aborts first. */
  async wait(signal: AbortSignal | undefined): Promise<void> {
    const delay = this.#next * (0.75 + this.#clock.random() / 4);
    this.#next = Math.min(this.#next * 2, 1_000);
    await sleep(this.#clock, delay, { signal });
  }
}
