// Waiting that ends when a signal aborts. However many wait on one signal, it carries one listener of ours,
// since Node warns of a leak from the eleventh on; with the last of them the listener goes.

const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `act` once `signal` aborts, which it has not yet, unless the returned function is called before. */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  const acts = waiting.get(signal) ?? listen(signal);
  // An entry of its own, although `act` may be waiting twice.
  const entry = () => act();
  acts.add(entry);
  return () => {
    acts.delete(entry);
    if (acts.size > 0 || waiting.get(signal) !== acts) return;
    waiting.delete(signal);
    signal.removeEventListener('abort', callAll);
  };
}

function listen(signal: AbortSignal): Set<() => void> {
  const acts = new Set<() => void>();
  waiting.set(signal, acts);
  signal.addEventListener('abort', callAll, { once: true });
  return acts;
}

function callAll(this: AbortSignal): void {
  const acts = waiting.get(this) ?? [];
  waiting.delete(this);
  for (const act of acts) act();
}

/**
 * Settles like `promise`, or rejects with the signal's reason as soon as that aborts. The promise itself
 * goes on; its late rejection is taken care of, and no listener stays behind.
 */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) {
      promise.catch(() => undefined);
      reject(signal.reason);
      return;
    }
    const forget = onAbort(signal, () => reject(signal.reason));
    promise.then(resolve, reject).finally(forget);
  });
}
