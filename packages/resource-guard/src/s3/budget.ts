// How long one verb may take, and one request of it. Every wait of the guard ends with its budget.
import { onAbort, untilAborted } from '../abort.ts';

/** Why a wait ended although its caller had not given up. */
export class OutOfTime extends Error {
  override readonly name = 'OutOfTime';
}

/** The time of one verb: its signal aborts when the caller's does, or after `timeoutMs`. Close it. */
export class Budget {
  readonly signal: AbortSignal;
  readonly #caller: AbortSignal | undefined;
  readonly #close: () => void;

  constructor(timeoutMs: number, caller: AbortSignal | undefined) {
    const { signal, close } = limited(timeoutMs, caller);
    this.signal = signal;
    this.#caller = caller;
    this.#close = close;
  }

  /** The caller gave up; what he gave as the reason is `signal.reason`. */
  get abandoned(): boolean {
    return this.#caller?.aborted === true;
  }

  close(): void {
    this.#close();
  }

  /** Resolves after `delayMs`, or rejects with the signal's reason. */
  async pause(delayMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, delayMs);
    });
    await untilAborted(over, this.signal).finally(() => clearTimeout(timer));
  }

  /** Hands `work` a signal that also aborts after `limitMs`, and waits no longer than that itself. */
  async request<T>(limitMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.signal.throwIfAborted();
    const { signal, close } = limited(limitMs, this.signal);
    try {
      return await untilAborted(work(signal), signal);
    } finally {
      close();
    }
  }
}

function limited(limitMs: number, outer: AbortSignal | undefined) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new OutOfTime(`no answer within ${limitMs} ms`)), limitMs);
  const forget = outer?.aborted ? undefined : outer && onAbort(outer, () => controller.abort(outer.reason));
  if (outer?.aborted) controller.abort(outer.reason);
  const close = () => {
    clearTimeout(timer);
    forget?.();
  };
  return { signal: controller.signal, close };
}
