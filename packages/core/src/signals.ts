import type { Clock, Timer } from './clock.ts';

interface FanOut {
  readonly acts: Set<() => void>;
  readonly fire: () => void;
}

const fanOuts = new WeakMap<AbortSignal, FanOut>();

/**
 * Calls `act` once when `signal` aborts, unless the returned function is called first. However many wait on
 * one signal, it carries a single listener: Node warns of a leak at the eleventh.
 */
function onAbort(signal: AbortSignal, act: () => void): () => void {
  const fanOut = fanOuts.get(signal) ?? newFanOut(signal);
  const own = () => act();
  fanOut.acts.add(own);
  return () => {
    if (!fanOut.acts.delete(own) || fanOut.acts.size > 0) return;
    signal.removeEventListener('abort', fanOut.fire);
    fanOuts.delete(signal);
  };
}

function newFanOut(signal: AbortSignal): FanOut {
  const acts = new Set<() => void>();
  const fire = () => {
    for (const act of [...acts]) act();
  };
  const fanOut = { acts, fire };
  fanOuts.set(signal, fanOut);
  signal.addEventListener('abort', fire, { once: true });
  return fanOut;
}

/**
 * A stretch of work that ends early for the first of several reasons, and lets go of all of them when it is
 * disposed. (`AbortSignal.any` on a long-lived signal leaks on Node 20.)
 */
export class AbortScope implements Disposable {
  readonly #controller = new AbortController();
  readonly #cleanUps: (() => void)[] = [];

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Aborts with the reason of `signal` when that aborts. */
  follow(signal: AbortSignal | undefined): this {
    if (signal === undefined) return this;
    if (signal.aborted) {
      this.abort(signal.reason);
      return this;
    }
    this.#cleanUps.push(onAbort(signal, () => this.abort(signal.reason)));
    return this;
  }

  /** Aborts after `delayMs`; returns the timer so that the limit can be lifted. */
  limit(clock: Clock, delayMs: number, reason: () => unknown): Timer {
    const timer = clock.setTimer(delayMs, () => this.abort(reason()));
    this.#cleanUps.push(() => timer.cancel());
    return timer;
  }

  [Symbol.dispose](): void {
    for (const cleanUp of this.#cleanUps.splice(0)) cleanUp();
  }
}

/** `promise`, or a rejection with the signal's reason when that comes first. The promise goes on unobserved. */
export async function unlessAborted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  let forget: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else forget = onAbort(signal, () => reject(signal.reason));
  });
  try {
    return await Promise.race([aborted, promise]);
  } finally {
    forget?.();
  }
}

/** The value of `promise` if it settles within `limitMs`, else `undefined`; the promise goes on unobserved. */
export async function within<T>(clock: Clock, limitMs: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: Timer | undefined;
  const limit = new Promise<undefined>((resolve) => {
    timer = clock.setTimer(limitMs, () => resolve(undefined));
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    timer?.cancel();
  }
}
