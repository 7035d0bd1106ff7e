/** A place in line: `granted` resolves when it is one's turn; `leave()` gives up the place, or the turn. */
export interface Place {
  readonly granted: Promise<void>;
  leave(): void;
}

/**
 * At most so many at once, the others in line, first come first served. (cockatiel's bulkhead keeps those who
 * gave up in its line until their turn comes.)
 */
export class Turns {
  #free: number;
  readonly #line = new Set<() => void>();

  constructor(limit: number) {
    this.#free = limit;
  }

  /** Takes a turn if there is one to be had at once. */
  tryTake(): boolean {
    if (this.#free === 0) return false;
    this.#free -= 1;
    return true;
  }

  queue(): Place {
    let call: (() => void) | undefined;
    const granted = new Promise<void>((resolve) => {
      call = resolve;
    });
    const own = () => call?.();
    this.#line.add(own);
    const leave = () => {
      // No longer in line: the turn had been ours.
      if (!this.#line.delete(own)) this.give();
    };
    return { granted, leave };
  }

  /** Gives a turn back, to the first in line. */
  give(): void {
    const [first] = this.#line;
    if (first === undefined) {
      this.#free += 1;
      return;
    }
    this.#line.delete(first);
    first();
  }
}
