import type {
  CallOptions,
  Compare,
  Coordinator,
  KeyValue,
  Operation,
  OperationResult,
  Txn,
} from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import type { Logger } from '../options.ts';
import type { Acquisition, Place } from './acquisition.ts';
import { BackOff } from './back-off.ts';
import { takeBackMarks } from './lock-delay.ts';

/**
 * How an acquisition ended: `deleted`, all our keys were there, intact, and we deleted them; `absent`, one was
 * gone or not ours any more before; `session-lost`, the session ended first, and the keys end with its lease.
 */
export type Ending = 'deleted' | 'absent' | 'session-lost';

/**
 * Ends an acquisition at etcd: repeated until confirmed, or until the session is lost. When this resolves,
 * the slot is free, and no copy of the enqueue that is still on its way can bring the key back.
 *
 * It goes by identity, never by name: the revision where we know it, else our details. A repeat that comes late
 * can therefore not touch a newer acquisition in the same slot. Never rejects.
 */
export async function endAcquisition(
  coordinator: Coordinator,
  acquisition: Acquisition,
  logger: Logger,
): Promise<Ending> {
  const backOff = new BackOff(coordinator.clock);
  const { session, scope } = acquisition;
  let sent = 0;
  let spoilt = false;
  try {
    for (;;) {
      if (session.isLost()) return 'session-lost';
      try {
        sent += 1;
        const call = { signal: scope.signal, timeoutMs: session.attemptTimeoutMs };
        const { intact, left } = await sendEnding(coordinator, acquisition, call);
        spoilt ||= left.length > 0;
        for (const found of left) await removeKey(coordinator, found, call);
        // An earlier copy whose reply was lost may be what deleted it, unless something speaks for a loss before.
        return intact || (sent > 1 && !spoilt && isKnown(acquisition)) ? 'deleted' : 'absent';
      } catch (error) {
        if (error instanceof LockkeeperError && error.code === 'lease-not-found') session.end('revoked');
        if (session.isLost()) return 'session-lost';
        logger.warn({ lock: acquisition.name, err: error }, 'an ending is not confirmed yet, repeating it');
        await backOff.wait(scope.signal);
      }
    }
  } catch {
    // Only the back-off is left to throw, and only because the session was lost.
    return 'session-lost';
  } finally {
    acquisition.settle();
  }
}

/** @returns whether our keys were there, intact, and gone now; and what is left in the place of those that were not. */
async function sendEnding(
  coordinator: Coordinator,
  acquisition: Acquisition,
  call: CallOptions,
): Promise<{ readonly intact: boolean; readonly left: readonly KeyValue[] }> {
  const reply = await coordinator.txn(endingTxn(acquisition), call);
  if (acquisition.unanswered > 0) acquisition.session.leaveBehind();
  const { length } = acquisition.places;
  const removals = length === 1 ? [reply] : reply.results.slice(0, length).filter(isTxn);
  return {
    intact: removals.every(({ succeeded }) => succeeded),
    left: removals.flatMap(({ results: [found] }) => (found?.op === 'range' ? found.kvs : [])),
  };
}

function endingTxn(acquisition: Acquisition): Txn {
  const { places, cancelledKey, requestKey, session } = acquisition;
  const put: Operation = { op: 'put', key: cancelledKey, value: '', lease: session.lease };
  // Nested, because a full etcd refuses a transaction with a put in it, and with it the deletion.
  const bar: Operation[] =
    acquisition.unanswered > 0 ? [{ op: 'txn', compare: [], success: [put], failure: [] }] : [];
  // Nobody will read it any more, and whoever asks later finds that our key is gone.
  const forget: Operation = { op: 'delete', key: requestKey };
  const { isReleased, mayTakeBackMark } = acquisition;
  const marks = isReleased && mayTakeBackMark ? takeBackMarks(acquisition) : [];
  const [only, ...more] = places.map((place) => removal(acquisition, place));
  if (only !== undefined && more.length === 0) {
    return {
      compare: only.compare,
      success: [...only.success, ...bar, ...marks, forget],
      failure: [...only.failure, ...bar, ...marks, forget],
    };
  }
  const each = places.map((place): Operation => ({ op: 'txn', ...removal(acquisition, place) }));
  return { compare: [], success: [...each, forget, ...bar, ...marks], failure: [] };
}

/** Deletes one key of ours if it is intact, and else tells what is in its place, where nobody else may be. */
function removal(acquisition: Acquisition, place: Place): Txn {
  const { key, detailsKey, isShared, revision } = place;
  // In this slot, which is ours until this is over, nobody else has details.
  const besides: Operation[] = detailsKey === key ? [] : [{ op: 'delete', key: detailsKey }];
  return {
    compare: acquisition.standsAt(place),
    success: [{ op: 'delete', key }, ...besides],
    failure: isShared ? ifSpoilt(key, revision) : [{ op: 'range', key }, ...besides],
  };
}

/** Where others may be: the key that we put, if somebody has written it over, and no other. */
function ifSpoilt(key: string, revision: bigint | undefined): Operation[] {
  if (revision === undefined) return [];
  const isOurs: Compare = { key, target: 'createRevision', is: '=', to: revision };
  return [{ op: 'txn', compare: [isOurs], success: [{ op: 'delete', key }], failure: [] }];
}

/** Whether all our keys were certainly put. */
function isKnown({ places }: Acquisition): boolean {
  return places.every(({ revision }) => revision !== undefined);
}

function isTxn(result: OperationResult): result is Extract<OperationResult, { op: 'txn' }> {
  return result.op === 'txn';
}

/**
 * Deletes exactly the key that was found, by value and ModRevision, and whatever is found in its place
 * after that. Only for keys below our own lease, where nobody else has any business.
 */
export async function removeKey(coordinator: Coordinator, found: KeyValue, call: CallOptions): Promise<void> {
  let left: KeyValue | undefined = found;
  while (left !== undefined) {
    const { key, modRevision, value } = left;
    const reply = await coordinator.txn(
      {
        compare: [
          { key, target: 'modRevision', is: '=', to: modRevision },
          { key, target: 'value', is: '=', to: value },
        ],
        success: [{ op: 'delete', key }],
        failure: [{ op: 'range', key }],
      },
      call,
    );
    const [result] = reply.results;
    left = reply.succeeded || result?.op !== 'range' ? undefined : result.kvs[0];
  }
}
