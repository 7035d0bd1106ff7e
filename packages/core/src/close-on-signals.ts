import { invalidOption } from './validation.ts';

/** Signals that ask a process to end. */
export type EndSignal = 'SIGTERM' | 'SIGINT' | 'SIGHUP';

const END_SIGNALS: readonly EndSignal[] = ['SIGTERM', 'SIGINT', 'SIGHUP'];

/**
 * Calls `close` at the first of the signals, and lets the process end by that signal afterwards, as if nobody
 * had listened. Where the application listens too, its handlers run as always and ending is their business. The
 * next signal finds us gone, so pressing Ctrl-C twice ends a process that has no handler of its own at once.
 */
export function closeOnSignals(signals: readonly EndSignal[], close: () => Promise<void>): Disposable {
  for (const signal of signals) {
    if (!END_SIGNALS.includes(signal)) {
      throw invalidOption('signals', signal, `expected some of ${END_SIGNALS.join(', ')}`);
    }
  }
  const stop = (): void => {
    for (const signal of signals) process.removeListener(signal, onSignal);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    stop();
    const othersListen = process.listenerCount(signal) > 0;
    void close().finally(() => {
      if (!othersListen) process.kill(process.pid, signal);
    });
  };
  for (const signal of signals) process.on(signal, onSignal);
  return { [Symbol.dispose]: stop };
}
