import { type Clock, sleep } from '../clock.ts';
import { LockkeeperError } from '../errors.ts';
import type { AbortSignalLike } from '../signals.ts';

/** Growing pauses between repeats: 50 ms, doubling to a second, each shortened at random by up to a quarter. */
export class BackOff {
  readonly #clock: Clock;
  #next = 50;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rejects with the signal's reason when it aborts first. */
  async wait(signal: AbortSignalLike | undefined): Promise<void> {
    const delay = this.#next * (0.75 + this.#clock.random() / 4);
    this.#next = Math.min(this.#next * 2, 1_000);
    await sleep(this.#clock, delay, { signal });
  }
}

/**
 * Repeats `call` while etcd cannot be reached. The signal bounds that: it aborts at the session's deadline at the latest.
 * @throws what `call` throws besides, or the signal's reason.
 */
export async function untilReached<T>(
  clock: Clock,
  signal: AbortSignalLike,
  call: () => Promise<T>,
): Promise<T> {
  const backOff = new BackOff(clock);
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof LockkeeperError && error.code === 'unreachable')) throw error;
      await backOff.wait(signal);
    }
  }
}
