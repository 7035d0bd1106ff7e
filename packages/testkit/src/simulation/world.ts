import { setImmediate } from 'node:timers';

interface Event {
  readonly dueAt: number;
  readonly sequence: number;
  act: (() => void) | undefined;
}

/**
 * The time of a simulation, and all that is still to happen. One event at a time: after each, all code that
 * it set going runs until only another event can move it on, and `afterEach` has a look.
 */
export class World {
  #now = 0;
  #sequence = 0;
  #steps = 0;
  /** A binary heap, the next event first. */
  readonly #events: Event[] = [];

  /** Milliseconds since the beginning, true time. */
  get now(): number {
    return this.#now;
  }

  /** How many events have happened. */
  get steps(): number {
    return this.#steps;
  }

  /** Returns how to call it off. What is due in the past happens next. */
  at(time: number, act: () => void): () => void {
    const event: Event = { dueAt: Math.max(time, this.#now), sequence: this.#sequence++, act };
    this.#push(event);
    return () => {
      event.act = undefined;
    };
  }

  after(delayMs: number, act: () => void): () => void {
    return this.at(this.#now + delayMs, act);
  }

  /** Lets events happen until `isOver` (asked after each), or until `limit` is reached. Returns whether it was over. */
  async run(limit: number, afterEach: () => void, isOver: () => boolean): Promise<boolean> {
    while (!isOver()) {
      const next = this.#events[0];
      if (next === undefined || next.dueAt > limit) {
        this.#now = Math.max(this.#now, limit);
        return false;
      }
      this.#pop();
      if (next.act === undefined) continue;
      this.#now = next.dueAt;
      this.#steps += 1;
      next.act();
      await settled();
      afterEach();
    }
    return true;
  }

  #push(event: Event): void {
    const heap = this.#events;
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as Event;
      if (isBefore(above, event)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#events;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child += 1;
      const below = heap[child] as Event;
      if (isBefore(last, below)) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = last;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.sequence < b.sequence);
}

/** Node runs every microtask that is queued, and those they queue, before the next immediate. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
