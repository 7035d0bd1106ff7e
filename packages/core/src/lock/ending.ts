import type {
  CallOptions,
  Compare,
  Coordinator,
  KeyValue,
  Operation,
  OperationResult,
  Txn,
  TxnReply,
  TxnResult,
} from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import type { Acquisition, Place } from './acquisition.ts';
import { BackOff } from './back-off.ts';
import { takeBackMarks } from './lock-delay.ts';
import type { LockHost } from './lock-host.ts';
import type { Seat } from './queue-mirror.ts';
import type { QueueMirrors } from './queue-mirrors.ts';

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
 *
 * @param onDelay - called when the first try, which takes 5 s at most, was in vain.
 */
export async function endAcquisition(
  { options: { coordinator, logger }, mirrors }: LockHost,
  acquisition: Acquisition,
  onDelay?: () => void,
): Promise<Ending> {
  let backOff: BackOff | undefined;
  const { session, scope } = acquisition;
  let sent = 0;
  let spoilt = false;
  try {
    for (;;) {
      if (session.isLost()) return 'session-lost';
      try {
        sent += 1;
        const call = { signal: scope, timeoutMs: session.attemptTimeoutMs };
        // A short cut, which is not tried again where anything was the matter with it.
        const next = sent === 1 ? nextInLine(mirrors, acquisition) : undefined;
        const reply = await coordinator.txn(endingTxn(acquisition, next), call);
        if (next !== undefined && isHandedOver(reply)) next.tell('in-front');
        if (acquisition.unanswered > 0) session.leaveBehind();
        const removals = removalsIn(acquisition, reply);
        const left = leftIn(removals);
        spoilt ||= left.length > 0;
        for (const found of left) await removeKey(coordinator, found, call);
        if (removals.every(({ succeeded }) => succeeded)) return 'deleted';
        // An earlier copy whose reply was lost may be what deleted it, unless something speaks for a loss before.
        return sent > 1 && !spoilt && isKnown(acquisition) ? 'deleted' : 'absent';
      } catch (error) {
        if (error instanceof LockkeeperError && error.code === 'lease-not-found') session.end('revoked');
        if (session.isLost()) return 'session-lost';
        logger.warn({ lock: acquisition.name, err: error }, 'an ending is not confirmed yet, repeating it');
        if (sent === 1) onDelay?.();
        backOff ??= new BackOff(coordinator.clock);
        await backOff.wait(scope);
      }
    }
  } catch {
    // Only the back-off is left to throw, and only because the session was lost.
    return 'session-lost';
  } finally {
    acquisition.settle();
  }
}

/** What the reply says of each of our places. */
function removalsIn({ places }: Acquisition, reply: TxnReply): readonly TxnResult[] {
  return places.length === 1 ? [reply] : reply.results.slice(0, places.length).filter(isTxn);
}

/** What was found in our places that we did not put. */
function leftIn(removals: readonly TxnResult[]): KeyValue[] {
  return removals.flatMap(({ results: [range] }) => (range?.op === 'range' ? range.kvs : []));
}

function endingTxn(acquisition: Acquisition, next: Seat | undefined): Txn {
  const { places, requestKey, unanswered, isReleased, mayTakeBackMark } = acquisition;
  const [only, ...more] = places;
  const isOne = only !== undefined && more.length === 0;
  const { compare, success, failure } = isOne ? removal(acquisition, only) : allRemovals(acquisition);
  // Nobody will read a request any more, and whoever asks later finds that our key is gone.
  const besides: Operation[] = [{ op: 'delete', key: requestKey }];
  if (unanswered > 0) besides.push(barred(acquisition));
  if (isReleased && mayTakeBackMark) besides.push(...takeBackMarks(acquisition));
  success.push(...besides);
  if (isOne) failure.push(...besides);
  if (next !== undefined) success.push(standing(acquisition, next));
  return { compare, success, failure };
}

/** Whoever waits in this keeper for nobody but us. */
function nextInLine(mirrors: QueueMirrors, { places, queues: [queue] }: Acquisition): Seat | undefined {
  return places.length === 1 && queue !== undefined ? mirrors.behind(queue) : undefined;
}

/**
 * Whether the next in line is there when we are gone, so that it holds from this very revision on: told by the reply, a
 * hand-over within a keeper need not wait for the event, nor for what we do after our release.
 */
function standing({ lineageCompare }: Acquisition, { key, token }: Seat): Operation {
  const compare: Compare[] = [
    { key, target: 'createRevision', is: '=', to: token },
    { key, target: 'modRevision', is: '=', to: token },
    lineageCompare,
  ];
  return { op: 'txn', compare, success: [], failure: [] };
}

function isHandedOver({ succeeded, results }: TxnReply): boolean {
  const told = results.at(-1);
  return succeeded && told?.op === 'txn' && told.succeeded;
}

/** Keeps copies of our enqueue that are still on their way from taking effect. */
function barred({ cancelledKey, session }: Acquisition): Operation {
  const put: Operation = { op: 'put', key: cancelledKey, value: '', lease: session.lease };
  // Nested, because a full etcd refuses a transaction with a put in it, and with it the deletion.
  return { op: 'txn', compare: [], success: [put], failure: [] };
}

interface Removal {
  readonly compare: readonly Compare[];
  readonly success: Operation[];
  readonly failure: Operation[];
}

function allRemovals(acquisition: Acquisition): Removal {
  const success = acquisition.places.map(
    (place): Operation => ({ op: 'txn', ...removal(acquisition, place) }),
  );
  return { compare: [], success, failure: [] };
}

/** Deletes one key of ours if it is intact, and else tells what is in its place, where nobody else may be. */
function removal(acquisition: Acquisition, place: Place): Removal {
  const { key, detailsKey, isShared, revision } = place;
  const success: Operation[] = [{ op: 'delete', key }];
  const failure: Operation[] = isShared ? ifSpoilt(key, revision) : [{ op: 'range', key }];
  if (detailsKey !== key) {
    // In this slot, which is ours until this is over, nobody else has details.
    const details: Operation = { op: 'delete', key: detailsKey };
    success.push(details);
    if (!isShared) failure.push(details);
  }
  return { compare: acquisition.standsAt(place), success, failure };
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
