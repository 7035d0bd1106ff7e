// An effect at work in a guarded transaction: how it begins, and who still waits for it.
import { GuardError } from '@lockkeeper/fencing';
import { onAbort } from '../abort.ts';
import { EffectScope, type Held } from '../effect-scope.ts';
import { invalid } from '../options.ts';
import { type ErrorContext, make } from './errors.ts';
import type { Transaction } from './transaction.ts';

export interface Begun<T> {
  readonly tx: Transaction;
  /** Over already, unless the result is a promise. */
  readonly scope: EffectScope;
  readonly result: T | PromiseLike<T>;
}

/** Calls the effect; where it throws at once, its writes are undone. */
export function begin<T>(tx: Transaction, held: Held, effect: () => T | PromiseLike<T>): Begun<T> {
  const scope = new EffectScope(held);
  try {
    const result = scope.runNow(effect);
    if (!isThenable(result)) scope.end();
    return { tx, scope, result };
  } catch (error) {
    scope.end();
    tx.undo(error);
    throw error;
  }
}

export function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** An async function would write after its transaction was undone. */
export function checkWork(work: unknown): void {
  if (typeof work !== 'function') throw invalid('work', work, 'expected a function');
  if (work.constructor.name === 'AsyncFunction') throw invalid('work', work, 'it is asynchronous; use run()');
}

/** Rejects with the signal's reason as soon as that aborts before `tx` was committed: then it never will be. */
export function unlessAborted<T>(
  work: Promise<T>,
  tx: Transaction,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const stop = () => {
      if (!tx.isOver) reject(signal.reason);
    };
    const forget = signal.aborted ? stop() : onAbort(signal, stop);
    work.then(resolve, reject).finally(() => forget?.());
  });
}

/** The claim of a first run may be unknown; the effect certainly did not run. */
export function didNotRun(context: ErrorContext): (error: unknown) => never {
  return (error) => {
    const lost = error instanceof GuardError && error.code === 'unknown';
    throw lost ? make('unavailable', 'the effect did not run', error, context) : error;
  };
}
