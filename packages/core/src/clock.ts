import type { AbortSignalLike } from './signals.ts';
/** A pending timer. Cancelling twice, or after it fired, does nothing. */
export interface Timer extends Disposable {
  cancel(): void;
}

export interface TimerOptions {
  /** Whether the pending timer keeps the process alive. Default `true`. */
  readonly ref?: boolean | undefined;
}

/**
 * Where time comes from. The system clock in production, a virtual one in tests and simulation; no other
 * file of this package reads a clock or sets a timer.
 */
export interface Clock {
  /** Monotonic milliseconds since an arbitrary origin. Decides every deadline. */
  now(): number;
  /** Wall time, milliseconds since the epoch. For display, and to notice a suspended machine; never a deadline. */
  wallTime(): number;
  /** Calls `fire` once, `delayMs` from now. Delays of any size work; 0 and less fire as soon as possible. */
  setTimer(delayMs: number, fire: () => void, options?: TimerOptions): Timer;
  /** From 0 (included) to 1 (excluded). Spreads back-offs and renewals; a simulation replays it by its seed. */
  random(): number;
}

/** Node stores delays in a signed 32-bit integer; a longer one would fire at once. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

class SystemTimer implements Timer {
  #handle: NodeJS.Timeout | undefined;

  constructor(delayMs: number, fire: () => void, ref: boolean) {
    this.#arm(performance.now() + delayMs, fire, ref);
  }

  #arm(dueAt: number, fire: () => void, ref: boolean): void {
    const left = Math.max(0, dueAt - performance.now());
    const handle = setTimeout(
      () => {
        if (left > LONGEST_DELAY_MS) return this.#arm(dueAt, fire, ref);
        this.#handle = undefined;
        fire();
      },
      Math.min(left, LONGEST_DELAY_MS),
    );
    if (!ref) handle.unref();
    this.#handle = handle;
  }

  cancel(): void {
    clearTimeout(this.#handle);
    this.#handle = undefined;
  }

  [Symbol.dispose](): void {
    this.cancel();
  }
}

/** The machine's clocks: `performance.now()` and `Date.now()`. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wallTime: () => Date.now(),
  setTimer: (delayMs, fire, options) => new SystemTimer(delayMs, fire, options?.ref ?? true),
  random: () => Math.random(),
};

/** What test libraries leave on the function that they put in its place. */
type FakeableTimer = typeof setTimeout & {
  readonly clock?: { readonly attachedInterval?: unknown };
  readonly _isMockFunction?: unknown;
};

/**
 * Whether time stands still because a test library has put its own timers in place of Node's, and does not move them
 * on by itself: those of Vitest, Jest and sinon can be told by a mark, those of `node:test` cannot.
 */
export function timersAreFaked(clock: Clock): boolean {
  if (clock !== systemClock) return false;
  const timer: FakeableTimer = setTimeout;
  if (timer._isMockFunction === true) return true;
  return typeof timer.clock === 'object' && timer.clock.attachedInterval === undefined;
}

/** Wall time as ISO 8601, for people to read. */
export function timestamp(wallTime: number): string {
  return new Date(wallTime).toISOString();
}

/** Resolves after `delayMs`; rejects with the signal's reason when that aborts first. */
export function sleep(
  clock: Clock,
  delayMs: number,
  options: TimerOptions & { readonly signal?: AbortSignalLike | undefined } = {},
): Promise<void> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      timer.cancel();
      reject(signal?.reason);
    };
    const timer = clock.setTimer(
      delayMs,
      () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      },
      options,
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
