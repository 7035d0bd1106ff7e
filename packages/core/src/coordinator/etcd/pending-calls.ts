import { type Clock, timersAreFaked } from '../../clock.ts';
import { LockkeeperError } from '../../errors.ts';
import type { AbortSignalLike } from '../../signals.ts';
import type { Rpc } from './rpc.ts';

export interface Bounds {
  readonly limitMs: number;
  readonly signal?: AbortSignalLike | undefined;
}

export type Settled<T> =
  | { readonly how: 'done'; readonly value: T }
  | { readonly how: 'failed'; readonly error: unknown }
  | { readonly how: 'out-of-time' };

/**
 * Everything that is waited for. Each wait ends within its limit whatever becomes of the work; it rejects
 * only for the caller's own abort (with that signal's reason) and for the end of the coordinator.
 */
export class PendingCalls {
  readonly #clock: Clock;
  readonly #waits = new Set<() => void>();
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get closed(): boolean {
    return this.#closed;
  }

  wait<T>(rpc: Rpc | undefined, { limitMs, signal }: Bounds, work: () => Promise<T>): Promise<Settled<T>> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(closedError('rejected'));
      if (timersAreFaked(this.#clock)) return reject(fakeTimersError());
      if (signal?.aborted) return reject(signal.reason);
      const end = () => {
        timer.cancel();
        signal?.removeEventListener('abort', onAbort);
        this.#waits.delete(onClose);
      };
      const giveUp = (reason: unknown) => {
        end();
        rpc?.giveUp();
        reject(reason);
      };
      const onAbort = () => giveUp(signal?.reason);
      const onClose = () => giveUp(closedError(rpc?.started ? 'unknown' : 'rejected'));
      const timer = this.#clock.setTimer(limitMs, () => {
        end();
        rpc?.giveUp();
        resolve({ how: 'out-of-time' });
      });
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waits.add(onClose);
      work().then(
        (value) => {
          end();
          resolve({ how: 'done', value });
        },
        (error: unknown) => {
          end();
          resolve({ how: 'failed', error });
        },
      );
    });
  }

  /** Lets `delayMs` pass. */
  async pause(delayMs: number, signal?: AbortSignalLike): Promise<void> {
    await this.wait(undefined, { limitMs: delayMs, signal }, () => new Promise<never>(() => {}));
  }

  close(): void {
    this.#closed = true;
    for (const onClose of [...this.#waits]) onClose();
  }
}

export function closedError(outcome: 'rejected' | 'unknown'): LockkeeperError {
  return new LockkeeperError('closed', 'the coordinator was closed', { outcome });
}

/** Better than a call that never ends: nothing of a real connection moves on fake timers. */
function fakeTimersError(): LockkeeperError {
  return new LockkeeperError(
    'invalid-option',
    'a test has faked the timers that calls to etcd wait by (vi.useFakeTimers() and the like): ' +
      "fake only the date (vi.useFakeTimers({ toFake: ['Date'] })), or test with memoryCoordinator() of " +
      '@lockkeeper/core/memory, which moves with fake timers',
  );
}
