import { onAbort } from '../abort.ts';

/** Turns at one connection: one at a time, first come, first served. */
export class Turns {
  #taken = false;
  readonly #waiting: (() => void)[] = [];

  /** Takes the turn if nobody has it. */
  tryEnter(): boolean {
    if (this.#taken) return false;
    this.#taken = true;
    return true;
  }

  /** Resolves when it is the caller's turn. Rejects with `late()` after `limitMs`, or with the signal's reason. */
  enter(limitMs: number, signal: AbortSignal | undefined, late: () => Error): Promise<void> {
    if (this.tryEnter()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer);
        forget?.();
        act();
      };
      const giveUp = (reason: unknown) => {
        this.#waiting.splice(this.#waiting.indexOf(admit), 1);
        settle(() => reject(reason));
      };
      const admit = () => settle(resolve);
      const timer = setTimeout(() => giveUp(late()), limitMs);
      const forget = signal && onAbort(signal, () => giveUp(signal.reason));
      this.#waiting.push(admit);
    });
  }

  /** Hands the turn to whoever waits longest. */
  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#taken = false;
    else next();
  }
}

/** Resolves after `ms`, or rejects with the signal's reason. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      forget?.();
      resolve();
    }, ms);
    const forget =
      signal &&
      onAbort(signal, () => {
        clearTimeout(timer);
        reject(signal.reason);
      });
  });
}
