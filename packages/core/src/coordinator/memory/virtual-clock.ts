import type { Clock, Timer } from '../../clock.ts';

/** Taken when the file is loaded: fake timers that a test installs later must not stop this clock. */
const { setImmediate } = globalThis;

export interface VirtualClockOptions {
  /** Wall time at the start, milliseconds since the epoch. Default: 2000-01-01T00:00:00Z. */
  readonly wallTime?: number | undefined;
}

interface PendingTimer {
  readonly dueAt: number;
  readonly sequence: number;
  readonly fire: () => void;
}

/**
 * A clock that stands still until it is told to move. Starts at 0. Timers fire in the order in which they
 * are due, those due at the same moment in the order in which they were set, and none but while the clock
 * is advanced: a delay of 0 waits for `advance(0)`.
 */
export class VirtualClock implements Clock {
  #now = 0;
  #wallOffset: number;
  #sequence = 0;
  /** In the order in which they will fire. */
  readonly #timers: PendingTimer[] = [];
  #advances: Promise<void> = Promise.resolve();

  constructor(options: VirtualClockOptions = {}) {
    this.#wallOffset = finite('wallTime', options.wallTime ?? Date.UTC(2000, 0, 1));
  }

  now(): number {
    return this.#now;
  }

  wallTime(): number {
    return this.#wallOffset + this.#now;
  }

  /** Steps the wall clock, forwards or back, as an operator or a time daemon does. `now()` does not move. */
  setWallTime(wallTime: number): void {
    this.#wallOffset = finite('wallTime', wallTime) - this.#now;
  }

  /** Always the middle: on a virtual clock nothing is left to chance. */
  random(): number {
    return 0.5;
  }

  /** How many timers are set and have neither fired nor been cancelled. */
  get pendingTimers(): number {
    return this.#timers.length;
  }

  setTimer(delayMs: number, fire: () => void): Timer {
    if (Number.isNaN(delayMs)) throw new RangeError('virtual clock: delayMs is NaN');
    const timer = { dueAt: this.#now + Math.max(0, delayMs), sequence: this.#sequence++, fire };
    this.#timers.splice(this.#placeOf(timer), 0, timer);
    const cancel = () => {
      const place = this.#placeOf(timer);
      if (this.#timers[place] === timer) this.#timers.splice(place, 1);
    };
    return { cancel, [Symbol.dispose]: cancel };
  }

  /**
   * Moves the clock on by `ms` and resolves when it is there. Before it moves, and after each timer that
   * fires, waiting code runs until nothing but time (or I/O, which has no place beside a virtual clock)
   * can move it on; timers that it sets on the way fire on the way. An advance waits for those called
   * before it. Rejects with what a timer throws, and then stands at that timer's moment.
   * @throws RangeError if `ms` is negative or not a finite number.
   */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0 && ms < Number.POSITIVE_INFINITY)) {
      throw new RangeError(`virtual clock: cannot advance by ${ms} ms; expected 0 or more, and finite`);
    }
    return this.#enqueue(() => this.#now + ms);
  }

  /**
   * The same, up to a reading of `now()`.
   * @throws RangeError if the clock is already past `time`, or `time` is not a finite number.
   */
  async advanceTo(time: number): Promise<void> {
    finite('time', time);
    return this.#enqueue(() => {
      if (time >= this.#now) return time;
      throw new RangeError(`virtual clock: cannot step back from ${this.#now} to ${time}`);
    });
  }

  #enqueue(target: () => number): Promise<void> {
    const advance = this.#advances.then(() => this.#run(target()));
    this.#advances = advance.catch(() => {});
    return advance;
  }

  async #run(target: number): Promise<void> {
    await settled();
    for (let next = this.#timers[0]; next !== undefined && next.dueAt <= target; next = this.#timers[0]) {
      this.#timers.shift();
      this.#now = next.dueAt;
      next.fire();
      await settled();
    }
    this.#now = target;
  }

  #placeOf(timer: PendingTimer): number {
    let low = 0;
    let high = this.#timers.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isBefore(this.#timers[middle] as PendingTimer, timer)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function isBefore(a: PendingTimer, b: PendingTimer): boolean {
  return a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.sequence < b.sequence);
}

/** Node runs every microtask that is queued, and those they queue, before the next immediate. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function finite(field: string, value: number): number {
  if (Number.isFinite(value)) return value;
  throw new RangeError(`virtual clock: ${field} is ${value}; expected a finite number`);
}
