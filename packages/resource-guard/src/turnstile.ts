import { onAbort } from './abort.ts';

export type TurnMode = 'shared' | 'exclusive';

interface Waiter {
  readonly mode: TurnMode;
  readonly admit: () => void;
}

/**
 * A fair shared/exclusive lock inside one process: first come, first served, neighbours in shared mode
 * together. Nobody overtakes a waiter, so a stream of shared turns cannot starve an exclusive one.
 */
export class Turnstile {
  #inside = 0;
  #mode: TurnMode = 'shared';
  #waiting: Waiter[] = [];

  /**
   * Resolves, once it is the caller's turn, with the function that ends the turn (calling it twice is
   * harmless). Rejects with the signal's reason when that aborts first; the place in the queue is given up.
   */
  enter(mode: TurnMode, signal?: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const giveUp = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter);
        this.#admit();
        reject(signal?.reason);
      };
      const forget = signal && onAbort(signal, giveUp);
      const waiter: Waiter = {
        mode,
        admit: () => {
          forget?.();
          resolve(this.#turn(mode));
        },
      };
      this.#waiting.push(waiter);
      this.#admit();
    });
  }

  #turn(mode: TurnMode): () => void {
    this.#inside += 1;
    this.#mode = mode;
    let over = false;
    return () => {
      if (over) return;
      over = true;
      this.#inside -= 1;
      this.#admit();
    };
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const free = this.#inside === 0 || (this.#mode === 'shared' && next.mode === 'shared');
      if (!free) return;
      this.#waiting.shift();
      next.admit();
    }
  }
}
