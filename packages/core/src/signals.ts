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
 *
 * Most end without anybody having asked for their signal, which costs more than all the rest: it is made when it is
 * asked for, and one scope follows another without.
 */
export class AbortScope implements Disposable {
  #controller: AbortController | undefined;
  #ended: { readonly reason: unknown } | undefined;
  /** Mostly one, or none. */
  #follower: AbortScope | undefined;
  #moreFollowers: Set<AbortScope> | undefined;
  /** What it follows, and what else it has to let go of. */
  #sources: AbortScope[] | undefined;
  #cleanUps: (() => void)[] | undefined;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#ended !== undefined) this.#controller.abort(this.#ended.reason);
    }
    return this.#controller.signal;
  }

  get aborted(): boolean {
    return this.#ended !== undefined;
  }

  throwIfAborted(): void {
    if (this.#ended !== undefined) this.signal.throwIfAborted();
  }

  abort(reason: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = { reason };
    this.#controller?.abort(reason);
    const followers = [this.#follower, ...(this.#moreFollowers ?? [])];
    for (const follower of followers) follower?.abort(reason);
  }

  /** Aborts with the reason of `source` when that aborts. */
  follow(source: AbortSignal | AbortScope | undefined): this {
    if (source === undefined) return this;
    if (source.aborted) this.abort(source instanceof AbortScope ? source.#ended?.reason : source.reason);
    else if (source instanceof AbortScope) this.#followScope(source);
    else this.#onCleanUp(onAbort(source, () => this.abort(source.reason)));
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
    for (const source of sources ?? []) source.#forget(this);
    for (const cleanUp of cleanUps ?? []) cleanUp();
  }

  #followScope(source: AbortScope): void {
    this.#sources ??= [];
    this.#sources.push(source);
    if (source.#follower === undefined) source.#follower = this;
    else {
      source.#moreFollowers ??= new Set();
      source.#moreFollowers.add(this);
    }
  }

  #forget(follower: AbortScope): void {
    if (this.#follower === follower) this.#follower = undefined;
    else this.#moreFollowers?.delete(follower);
  }

  #onCleanUp(act: () => void): void {
    this.#cleanUps ??= [];
    this.#cleanUps.push(act);
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
