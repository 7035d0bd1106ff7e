import type { Clock, Timer } from './clock.ts';

/** As much of an `AbortSignal` as whoever waits needs. An {@link AbortScope} is one too, at a tenth of the price. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(type: 'abort', listener: AbortListener, options?: { readonly once?: boolean }): void;
  removeEventListener(type: 'abort', listener: AbortListener): void;
}

/** A function, or an object with a method for it: that is none more to keep for each of those who wait. */
export type AbortListener = (() => void) | { handleEvent(): void };

type Listener = AbortListener | AbortScope;

interface FanOut {
  readonly acts: Set<() => void>;
  readonly fire: () => void;
}

const fanOuts = new WeakMap<AbortSignalLike, FanOut>();

/**
 * Calls `act` once when `signal` aborts, unless the returned function is called first. However many wait on
 * one signal, it carries a single listener: Node warns of a leak at the eleventh.
 */
function onAbort(signal: AbortSignalLike, act: () => void): () => void {
  if (signal instanceof AbortScope) {
    signal.addEventListener('abort', act);
    return () => signal.removeEventListener('abort', act);
  }
  const fanOut = fanOuts.get(signal) ?? newFanOut(signal);
  const own = () => act();
  fanOut.acts.add(own);
  return () => {
    if (!fanOut.acts.delete(own) || fanOut.acts.size > 0) return;
    signal.removeEventListener('abort', fanOut.fire);
    fanOuts.delete(signal);
  };
}

function newFanOut(signal: AbortSignalLike): FanOut {
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
 *
 * Most end without anybody from outside having asked for their signal, which costs more than all the rest: it is made
 * when it is asked for, and our own waits do without.
 */
export class AbortScope implements AbortSignalLike, Disposable {
  #controller: AbortController | undefined;
  #aborted = false;
  #reason: unknown;
  /** Those that follow it are among them. Mostly one, or none. */
  #listener: Listener | undefined;
  #moreListeners: Set<Listener> | undefined;
  /** What it follows, and what else it has to let go of. */
  #sources: AbortScope[] | undefined;
  #cleanUps: (() => void)[] | undefined;

  /** For code that is not ours. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  addEventListener(_type: 'abort', listener: AbortListener): void {
    this.#add(listener);
  }

  removeEventListener(_type: 'abort', listener: AbortListener): void {
    this.#remove(listener);
  }

  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    this.#controller?.abort(reason);
    const listeners = [this.#listener, ...(this.#moreListeners ?? [])];
    this.#listener = undefined;
    this.#moreListeners = undefined;
    for (const listener of listeners) {
      if (listener instanceof AbortScope) listener.abort(reason);
      else if (typeof listener === 'function') listener();
      else listener?.handleEvent();
    }
  }

  /** Aborts with the reason of `source` when that aborts. */
  follow(source: AbortSignalLike | undefined): this {
    if (source === undefined) return this;
    if (source.aborted) this.abort(source.reason);
    else if (source instanceof AbortScope) {
      source.#add(this);
      // Not `push`, here and below: the first makes room for 17.
      this.#sources = [...(this.#sources ?? []), source];
    } else this.#onCleanUp(onAbort(source, () => this.abort(source.reason)));
    return this;
  }

  /** Aborts after `delayMs`; returns the timer so that the limit can be lifted. */
  limit(clock: Clock, delayMs: number, reason: () => unknown): Timer {
    const timer = clock.setTimer(delayMs, () => this.abort(reason()));
    this.#onCleanUp(() => timer.cancel());
    return timer;
  }

  [Symbol.dispose](): void {
    const [sources, cleanUps] = [this.#sources, this.#cleanUps];
    this.#sources = undefined;
    this.#cleanUps = undefined;
    if (sources !== undefined) for (const source of sources) source.#remove(this);
    if (cleanUps !== undefined) for (const cleanUp of cleanUps) cleanUp();
  }

  #add(listener: Listener): void {
    if (this.#aborted) return;
    if (this.#listener === undefined) this.#listener = listener;
    else {
      this.#moreListeners ??= new Set();
      this.#moreListeners.add(listener);
    }
  }

  #remove(listener: Listener): void {
    if (this.#listener === listener) this.#listener = undefined;
    else this.#moreListeners?.delete(listener);
  }

  #onCleanUp(act: () => void): void {
    this.#cleanUps = [...(this.#cleanUps ?? []), act];
  }
}

/** `promise`, or a rejection with the signal's reason when that comes first. The promise goes on unobserved. */
export async function unlessAborted<T>(signal: AbortSignalLike, promise: Promise<T>): Promise<T> {
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
export function within<T>(clock: Clock, limitMs: number, promise: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(limitMs, () => resolve(undefined));
    promise.then(
      (value) => {
        timer.cancel();
        resolve(value);
      },
      (error: unknown) => {
        timer.cancel();
        reject(error);
      },
    );
  });
}
