import { type Claimable, type FencingToken, GuardError } from '@lockkeeper/fencing';
import type { Clock } from '../clock.ts';
import { LockkeeperError } from '../errors.ts';
import { BackOff } from '../lock/back-off.ts';
import { AbortScope, unlessAborted } from '../signals.ts';

/** The part of a guard that stops a hold for good. */
export type Sealable = Pick<Claimable, 'resource' | 'seal'>;

export interface Sealing {
  readonly timeoutMs: number;
  readonly force: boolean;
}

/**
 * Asks every guard to accept nothing more of a holder's tokens, until it confirms or the time is over.
 * @param what - is not broken, in the message.
 * @returns the resources of those that did not, where that is allowed.
 * @throws LockkeeperError `seal-failed`, or the signal's reason.
 */
export async function sealGuards(
  clock: Clock,
  guards: readonly Sealable[],
  { timeoutMs, force }: Sealing,
  what: string,
  tokens: readonly FencingToken[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  using scope = new AbortScope().follow(signal);
  scope.limit(clock, timeoutMs, () => new Error(`no answer within sealTimeoutMs ${timeoutMs}`));
  const failures: { readonly resource: string; readonly error: unknown }[] = [];
  const sealOne = async (guard: Sealable): Promise<void> => {
    try {
      for (const token of tokens) await unlessAborted(scope.signal, seal(clock, guard, token, scope.signal));
    } catch (error) {
      failures.push({ resource: guard.resource, error });
    }
  };
  await Promise.all(guards.map(sealOne));
  signal.throwIfAborted();
  if (force || failures.length === 0) return failures.map(({ resource }) => resource);
  const why = failures.map(
    ({ resource, error }) => `guard "${resource}" did not seal it: ${messageOf(error)}`,
  );
  const errors = failures.map(({ error }) => error);
  throw new LockkeeperError('seal-failed', `${what} is not broken: ${why.join('; ')}`, {
    cause: errors.length === 1 ? errors[0] : new AggregateError(errors, why.join('; ')),
  });
}

/** Sealing is idempotent, so an unknown outcome is asked again. */
async function seal(clock: Clock, guard: Sealable, token: FencingToken, signal: AbortSignal): Promise<void> {
  for (const backOff = new BackOff(clock); ; await backOff.wait(signal)) {
    try {
      return await guard.seal(token, { signal });
    } catch (error) {
      signal.throwIfAborted();
      const again = error instanceof GuardError && (error.outcome === 'retry' || error.outcome === 'unknown');
      if (!again) throw error;
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
