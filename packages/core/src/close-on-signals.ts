import { invalidOption } from './validation.ts';

/** Signals that ask a process to end. */
export type EndSignal = 'SIGTERM' | 'SIGINT' | 'SIGHUP';

const END_SIGNALS: readonly EndSignal[] = ['SIGTERM', 'SIGINT', 'SIGHUP'];

type Close = () => Promise<void>;

/** What has to be closed at each signal, of all keepers of this process: one listener serves them all. */
const registered = new Map<NodeJS.Signals, Set<Close>>();

/**
 * Calls `close` at the first of the signals. When everything registered for that signal has closed, the process
 * ends by it, as if nobody had listened. Where the application listens too, its handlers run as always and
 * ending is their business. The next signal finds us gone, so pressing Ctrl-C twice ends a process that has no
 * handler of its own at once.
 * @throws LockkeeperError `invalid-option`.
 */
export function closeOnSignals(signals: readonly EndSignal[], close: Close): Disposable {
  if (!Array.isArray(signals)) throw invalidOption('signals', signals, 'expected an array');
  for (const signal of signals) {
    if (!END_SIGNALS.includes(signal)) {
      throw invalidOption('signals', signal, `expected some of ${END_SIGNALS.join(', ')}`);
    }
  }
  for (const signal of signals) register(signal, close);
  return {
    [Symbol.dispose]: () => {
      for (const signal of signals) unregister(signal, close);
    },
  };
}

function register(signal: EndSignal, close: Close): void {
  const closes = registered.get(signal) ?? new Set();
  closes.add(close);
  if (registered.has(signal)) return;
  registered.set(signal, closes);
  // First in line: a handler that the application added by `once` is gone from the list when its turn comes.
  process.prependListener(signal, onSignal);
}

function unregister(signal: EndSignal, close: Close): void {
  const closes = registered.get(signal);
  closes?.delete(close);
  if (closes?.size === 0) forget(signal);
}

function forget(signal: NodeJS.Signals): void {
  registered.delete(signal);
  process.removeListener(signal, onSignal);
}

function onSignal(signal: NodeJS.Signals): void {
  const closes = [...(registered.get(signal) ?? [])];
  const othersListen = process.listenerCount(signal) > 1;
  forget(signal);
  void Promise.allSettled(closes.map((close) => close())).then(() => {
    if (!othersListen) process.kill(process.pid, signal);
  });
}
