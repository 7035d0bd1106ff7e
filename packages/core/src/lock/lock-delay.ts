import { sleep } from '../clock.ts';
import type { Coordinator, Operation } from '../coordinator/coordinator.ts';
import type { AbortSignalLike } from '../signals.ts';
import type { Acquisition } from './acquisition.ts';
import { untilReached } from './back-off.ts';

/**
 * Chubby's lock-delay, for resources that no guard protects: whoever follows a holder that vanished waits before it
 * begins, so that what the other had on its way has had time to arrive. A holder that releases says so, by taking
 * back the mark that it left when it began; whoever follows it does not wait.
 *
 * @returns after the delay, if there was one.
 * @throws LockkeeperError, or the signal's reason.
 */
export async function observeLockDelay(
  coordinator: Coordinator,
  acquisition: Acquisition,
  lockDelayMs: number,
  signal: AbortSignalLike,
): Promise<void> {
  const vanished = await leaveMark(coordinator, acquisition, signal);
  if (vanished) await sleep(coordinator.clock, lockDelayMs, { signal });
  // From now on work begins under the lock, and only its release takes the mark back.
  acquisition.mayTakeBackMark = true;
}

/** @returns whether the last holder left its mark behind, or might have: a lost reply hides what stood there. */
async function leaveMark(
  coordinator: Coordinator,
  acquisition: Acquisition,
  signal: AbortSignalLike,
): Promise<boolean> {
  const { id, places, marks, lineageCompare, session } = acquisition;
  const success = marks.flatMap((key): Operation[] => [
    { op: 'range', key },
    { op: 'put', key, value: id },
  ]);
  const compare = [...places.flatMap((place) => acquisition.standsAt(place)), lineageCompare];
  let sent = 0;
  const reply = await untilReached(coordinator.clock, signal, () => {
    sent += 1;
    return coordinator.txn(
      { compare, success, failure: [] },
      { signal, timeoutMs: session.attemptTimeoutMs },
    );
  });
  // Whether our key is gone the hold itself finds out; nothing was left.
  if (!reply.succeeded) throw acquisition.lostWhileWaiting(session.lossCause ?? 'key-deleted');
  return sent > 1 || reply.results.some((result) => result.op === 'range' && result.kvs.length > 0);
}

/** For the ending transaction of a hold that was released. */
export function takeBackMarks({ id, marks }: Acquisition): Operation[] {
  return marks.map((key) => ({
    op: 'txn',
    compare: [{ key, target: 'value', is: '=', to: id }],
    success: [{ op: 'delete', key }],
    failure: [],
  }));
}
