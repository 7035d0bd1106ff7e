import {
  type CallOptions,
  type Compare,
  type Coordinator,
  type KeySpan,
  type KeyValue,
  type Operation,
  prefixSpan,
  type Txn,
  type TxnReply,
} from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import type { AbortSignalLike } from '../signals.ts';
import { type Acquisition, isDowngraded, type Place, type QueuePlace, readContender } from './acquisition.ts';
import { BackOff } from './back-off.ts';
import { removeKey } from './ending.ts';

/**
 * Where the enqueue left us; `held` only if nobody stands before us in any queue. `queued` without `behind`: our key is
 * there, but who stands before it only a deciding read can tell. `busy`: nothing was written (only `try`).
 */
export type Enqueued =
  | { readonly place: 'held'; readonly revision: bigint }
  | { readonly place: 'queued'; readonly revision: bigint; readonly behind: readonly string[] | undefined }
  | { readonly place: 'busy'; readonly holder: KeyValue | undefined };

export type EnqueueMode = 'queue' | 'try';

/**
 * Sends the acquire transaction until its outcome is known. It is idempotent: a repeat that finds our own
 * key learns that an earlier copy was applied, and takes the token from the key, not from the reply.
 *
 * @throws LockkeeperError, or the signal's reason. The caller must end the acquisition then: copies that
 * were never answered may still be applied.
 */
export async function enqueue(
  coordinator: Coordinator,
  acquisition: Acquisition,
  mode: EnqueueMode,
  signal: AbortSignalLike,
): Promise<Enqueued> {
  const txn = enqueueTxn(acquisition, mode);
  let isUnsent = false;
  const onUnsent = () => {
    isUnsent = true;
  };
  const call = { signal, timeoutMs: acquisition.session.attemptTimeoutMs, onUnsent };
  let backOff: BackOff | undefined;
  for (;;) {
    signal.throwIfAborted();
    isUnsent = false;
    // One copy. Until it is answered it counts as one that may still be applied.
    acquisition.unanswered += 1;
    acquisition.mayExist = true;
    let reply: TxnReply;
    try {
      reply = await coordinator.txn(txn, call);
    } catch (error) {
      if (isUnsent) takeBack(acquisition);
      // The reason of an abort says nothing about the copy, even if it looks like an answer of etcd.
      signal.throwIfAborted();
      if (!isUnsent && isRefusal(error)) takeBack(acquisition);
      unlessToRepeat(acquisition, error);
      backOff ??= new BackOff(coordinator.clock);
      await backOff.wait(signal);
      continue;
    }
    acquisition.unanswered -= 1;
    if (reply.succeeded) return placeAfterPut(acquisition, reply);
    const found = await whyRefused(coordinator, acquisition, reply, call);
    if (found !== 'retry') return found;
  }
}

/**
 * One proposal and one round trip, free or contended, for one queue or many: each range sees its queue as it
 * was before our put, so its last key is our predecessor there. Who does not want to wait puts all or nothing, and
 * compares that its queues are empty: in as few lists as etcd's limit leaves for a hundred of them.
 */
function enqueueTxn(acquisition: Acquisition, mode: EnqueueMode): Txn {
  const { queues, cancelledKey, lineageKey } = acquisition;
  const isTry = mode === 'try';
  const compare: Compare[] = [];
  const success: Operation[] = [];
  const failure: Operation[] = [];
  const apart: KeySpan[] = [];
  for (const place of queues) {
    if (isTry) {
      for (const span of aloneIn(place)) compare.push(isAbsent(span.key, span.rangeEnd));
      for (const read of firstAndOwn(place)) failure.push(read);
      success.push(take(acquisition, place));
    } else {
      compare.push(isAbsent(place.key));
      for (const key of keysOf(place)) failure.push(rangeOf(key));
      const isLast = isBehindOwn(acquisition, place);
      success.push(isLast ? comeLast(acquisition, place) : getInLine(acquisition, place));
      // Two that come in one revision would have one token.
      if (isLast) apart.push(prefixSpan(place.queue.rivals));
    }
    // Readers of one lock do not look at each other. Each has its own token all the same.
    const { isOfReaders, family } = place.queue;
    if (isOfReaders === true && family !== undefined) apart.push(prefixSpan(family));
  }
  compare.push(isAbsent(cancelledKey), acquisition.lineageCompare);
  failure.push(rangeOf(cancelledKey), rangeOf(lineageKey));
  return { compare, success, failure, apartIn: apart };
}

function isAbsent(key: string, rangeEnd?: string): Compare {
  return { key, rangeEnd, target: 'createRevision', is: '=', to: 0n };
}

const rangeOf = (key: string): Operation => ({ op: 'range', key });

const keysOf = ({ key, detailsKey }: Place): string[] => (key === detailsKey ? [key] : [key, detailsKey]);

function putOwn({ session, value, details }: Acquisition, place: Place): Operation[] {
  const { lease } = session;
  const { key, detailsKey } = place;
  if (key === detailsKey) return [{ op: 'put', key, value: details, lease }];
  return [
    { op: 'put', key, value, lease },
    { op: 'put', key: detailsKey, value: details, lease },
  ];
}

const LAST_FIRST = { by: 'createRevision', order: 'descend' } as const;

function getInLine(acquisition: Acquisition, place: QueuePlace): Operation {
  const puts = putOwn(acquisition, place);
  const { rivals, sharesWithDowngraded } = place.queue;
  const { key, rangeEnd } = prefixSpan(rivals);
  const keysOnly = !sharesWithDowngraded;
  const last: Operation = { op: 'range', key, rangeEnd, sort: LAST_FIRST, limit: 1, keysOnly };
  return { op: 'txn', compare: [isAbsent(key, rangeEnd)], success: puts, failure: [last, ...puts] };
}

/**
 * Whether somebody of our own session is in this queue already, so that we are hardly the first: etcd need not look, which
 * takes it the longer the longer the queue is. Whoever waits learns his place from the mirror anyway, first or not.
 */
function isBehindOwn({ queues, session }: Acquisition, { key, queue }: QueuePlace): boolean {
  return queues.length === 1 && session.slots.count(queue.keys) > 1 && key.startsWith(queue.rivals);
}

/** Our own key is not there: the enqueue compares that. */
function comeLast(acquisition: Acquisition, place: QueuePlace): Operation {
  const isThere: Compare = { key: place.key, target: 'createRevision', is: '!=', to: 0n };
  return { op: 'txn', compare: [isThere], success: [], failure: putOwn(acquisition, place) };
}

/** Nested like {@link getInLine}, by which an enqueue is told from other transactions. */
function take(acquisition: Acquisition, place: QueuePlace): Operation {
  return { op: 'txn', compare: [], success: putOwn(acquisition, place), failure: [] };
}

/** What must be empty for us to be the first and only one there. The rivals mostly include our own key. */
function aloneIn({ key, queue: { rivals } }: QueuePlace): KeySpan[] {
  const span = prefixSpan(rivals);
  return key.startsWith(rivals) ? [span] : [{ key }, span];
}

/** Who is in the way, and whether we are it: our own key can only have been put where nobody else was. */
function firstAndOwn(place: QueuePlace): Operation[] {
  const { rivals } = place.queue;
  const first: Operation = {
    op: 'range',
    ...prefixSpan(rivals),
    sort: { by: 'createRevision', order: 'ascend' },
    limit: 1,
  };
  return [
    first,
    ...keysOf(place)
      .filter((key) => !key.startsWith(rivals))
      .map(rangeOf),
  ];
}

/** A copy that certainly has no effect. */
function takeBack(acquisition: Acquisition): void {
  acquisition.unanswered -= 1;
  acquisition.mayExist = acquisition.unanswered > 0;
}

function isRefusal(error: unknown): boolean {
  return error instanceof LockkeeperError && error.outcome === 'rejected' && error.code !== 'closed';
}

/**
 * That etcd cannot be reached is no end of the matter, whether the copy was sent or not: it is repeated for as long as
 * the caller may.
 */
function unlessToRepeat(acquisition: Acquisition, error: unknown): void {
  if (!(error instanceof LockkeeperError)) throw error;
  if (error.code === 'unreachable') {
    acquisition.trouble = error;
    return;
  }
  if (error.code !== 'lease-not-found') throw error;
  acquisition.session.end('revoked');
  throw acquisition.lostWhileWaiting(acquisition.session.lossCause ?? 'revoked');
}

function placeAfterPut(acquisition: Acquisition, reply: TxnReply): Enqueued {
  let free = true;
  for (const nested of reply.results) {
    if (nested.op !== 'txn') throw unexpected(acquisition);
    free &&= nested.succeeded;
  }
  if (free) return { place: 'held', revision: reply.revision };
  const neighbours = reply.results.flatMap((nested) =>
    nested.op === 'txn' ? nested.results.flatMap((result) => (result.op === 'range' ? result.kvs : [])) : [],
  );
  // Of one that has become a reader already no event will tell: the deciding read does.
  const isKnown = neighbours.length > 0 && !neighbours.some(isDowngraded);
  const behind = isKnown ? neighbours.map(({ key }) => key) : undefined;
  return { place: 'queued', revision: reply.revision, behind };
}

/** The compare failed: the reply's ranges say which part of it. */
async function whyRefused(
  coordinator: Coordinator,
  acquisition: Acquisition,
  reply: TxnReply,
  call: CallOptions,
): Promise<Enqueued | 'retry'> {
  const kvs = reply.results.flatMap((result) => (result.op === 'range' ? result.kvs : []));
  const found = new Map(kvs.map((kv) => [kv.key, kv]));
  if (!acquisition.isInHistory(found.get(acquisition.lineageKey))) {
    acquisition.session.end('history-regressed');
    throw acquisition.lostWhileWaiting('history-regressed');
  }
  if (found.has(acquisition.cancelledKey)) throw unexpected(acquisition);
  const { queues } = acquisition;
  const owns = queues.map(({ key, detailsKey }) => ({ kv: found.get(key), details: found.get(detailsKey) }));
  const present = owns.flatMap(({ kv }) => kv ?? []);
  const [own] = present;
  if (own === undefined) {
    // Only a try is refused because of others.
    const holder = kvs.find(({ key }) => queues.some(({ queue }) => key.startsWith(queue.rivals)));
    if (holder === undefined) throw unexpected(acquisition);
    acquisition.mayExist = acquisition.unanswered > 0;
    return { place: 'busy', holder };
  }
  const isOurs = (details: KeyValue | undefined) =>
    details !== undefined && readContender(details).acquisition === acquisition.id;
  const foreign = owns.flatMap(({ kv, details }) => (kv === undefined || isOurs(details) ? [] : kv));
  if (foreign.length > 0) {
    // Nobody else may write below our lease: a left-over that would block the lock for ever. Whether it is
    // gone, the next copy of the enqueue finds out.
    for (const kv of foreign) await removeKey(coordinator, kv, call).catch(unlessUnreachable);
    return 'retry';
  }
  if (present.length < owns.length) throw acquisition.lostWhileWaiting('key-deleted');
  if (present.some((kv) => kv.modRevision !== own.createRevision))
    throw acquisition.lostWhileWaiting('foreign-write');
  return { place: 'queued', revision: own.createRevision, behind: undefined };
}

function unlessUnreachable(error: unknown): void {
  if (!(error instanceof LockkeeperError && error.code === 'unreachable')) throw error;
}

function unexpected(acquisition: Acquisition): LockkeeperError {
  return new LockkeeperError(
    'unexpected-reply',
    `${acquisition.title}: etcd's reply to the enqueue makes no sense`,
  );
}
