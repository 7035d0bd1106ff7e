import { type Claimable, type FencingToken, GuardError } from '@lockkeeper/fencing';
import type { Clock } from '../clock.ts';
import { LockkeeperError } from '../errors.ts';
import type { Logger } from '../options.ts';
import { AbortScope, unlessAborted, within } from '../signals.ts';
import { BackOff } from './back-off.ts';

/**
 * Resolves when every guard has promised to accept nothing older than `token`. From then on a late write of
 * any earlier holder is refused, also one that arrives before our first.
 *
 * @throws LockkeeperError `claim-timeout`, or `claim-failed` with the guard's error as its cause, or the
 * signal's reason.
 */
export async function claimAll(
  clock: Clock,
  claims: readonly Claimable[],
  token: FencingToken,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  if (claims.length === 0) return;
  using scope = new AbortScope().follow(signal);
  /** And what they answered last. By guard: one resource may have guards in several storages. */
  const waitingFor = new Map<Claimable, unknown>(claims.map((guard) => [guard, undefined]));
  scope.limit(clock, timeoutMs, () => {
    const names = [...waitingFor.keys()].map(({ resource }) => `"${resource}"`).join(', ');
    const cause = [...waitingFor.values()].find((answer) => answer !== undefined);
    const why = cause === undefined ? '' : `: ${messageOf(cause)}`;
    const what = `no promise from guard ${names} within claimTimeoutMs ${timeoutMs}${why}`;
    return new LockkeeperError('claim-timeout', what, cause === undefined ? {} : { cause });
  });
  const claimOne = async (guard: Claimable): Promise<void> => {
    await claim(clock, guard, token, scope.signal, (answer) => waitingFor.set(guard, answer));
    waitingFor.delete(guard);
  };
  try {
    await unlessAborted(scope.signal, Promise.all(claims.map(claimOne)));
  } catch (error) {
    // The first failure decides; the other guards need not be waited for.
    scope.abort(error);
    throw error;
  }
}

/** Claims are idempotent, so an unknown outcome is simply asked again, like one the storage wants repeated. */
async function claim(
  clock: Clock,
  guard: Claimable,
  token: FencingToken,
  signal: AbortSignal,
  note: (answer: unknown) => void,
): Promise<void> {
  const backOff = new BackOff(clock);
  for (;;) {
    try {
      return await guard.claim(token, { signal });
    } catch (error) {
      signal.throwIfAborted();
      const again = error instanceof GuardError && (error.outcome === 'retry' || error.outcome === 'unknown');
      if (!again) {
        throw new LockkeeperError(
          'claim-failed',
          `guard "${guard.resource}" did not promise: ${messageOf(error)}`,
          {
            cause: error,
          },
        );
      }
      note(error);
    }
    await backOff.wait(signal);
  }
}

/**
 * Asks every guard to accept nothing more of a finished hold, for at most `timeoutMs`: a guard that is down
 * must not keep the lock from everybody else. Never rejects.
 * @returns whether all of them promised.
 */
export async function sealAll(
  clock: Clock,
  claims: readonly Claimable[],
  token: FencingToken,
  timeoutMs: number,
  logger: Logger,
): Promise<boolean> {
  using scope = new AbortScope();
  const sealOne = async (guard: Claimable): Promise<boolean> => {
    try {
      await guard.seal(token, { signal: scope.signal });
      return true;
    } catch (error) {
      logger.warn({ resource: guard.resource, err: error }, 'a guard could not be sealed');
      return false;
    }
  };
  const all = await within(clock, timeoutMs, Promise.all(claims.map(sealOne)));
  scope.abort(new LockkeeperError('claim-timeout', `not sealed within claimTimeoutMs ${timeoutMs}`));
  return all?.every((sealed) => sealed) ?? false;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
