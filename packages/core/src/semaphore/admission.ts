import {
  type CallOptions,
  type Coordinator,
  type KeySpan,
  type KeyValue,
  type Operation,
  type OperationResult,
  prefixSpan,
  type TxnReply,
  type WatchEvent,
} from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import { type Acquisition, type Admit, type Place, readContender } from '../lock/acquisition.ts';
import { untilReached } from '../lock/back-off.ts';
import { readLimit, type SemaphoreKeys } from '../lock/key-layout.ts';
import { WakeUp } from '../lock/wait-turn.ts';
import type { AbortSignalLike } from '../signals.ts';

/** A semaphore as one of its users sees it. */
export interface SemaphorePlan {
  readonly name: string;
  readonly keys: SemaphoreKeys;
  readonly permits: number;
}

/** What one read of the whole semaphore shows, at one revision. */
interface Picture {
  /** As stored; `undefined` before the first grant. */
  readonly limit: string | undefined;
  readonly first: KeyValue | undefined;
  /** How many stand before us. */
  readonly before: number;
  readonly takenSlots: ReadonlySet<string>;
  readonly revision: bigint;
}

/**
 * Admission to a semaphore: among the first of the queue, as many as there are permits, and in a slot. The grant
 * creates the slot's key in a transaction that compares our place in the queue and the number of permits, so etcd
 * itself keeps the limit, whatever a client believes.
 */
export function admission(plan: SemaphorePlan): Admit {
  return async (coordinator, acquisition, mode, signal, onWait) => {
    const wake = new WakeUp();
    for (let tries = 0; ; tries += 1) {
      const picture = await look(coordinator, plan, acquisition, signal);
      const slot = picture.before < plan.permits ? freeSlot(plan, picture) : undefined;
      if (slot !== undefined) {
        const attempt = { key: slot, bar: `${acquisition.cancelledKey}.${tries}` };
        const revision = await takeSlot(coordinator, plan, acquisition, attempt, picture.limit, signal);
        if (revision !== undefined) return { revision };
      } else if (mode === 'try') {
        return { holder: picture.first };
      } else {
        onWait();
        await somebodyLeft(coordinator, plan, acquisition, picture, wake, signal);
      }
    }
  };
}

/** @throws LockkeeperError `lost-while-waiting`, `invalid-option` where the semaphore has another limit. */
async function look(
  coordinator: Coordinator,
  { name, keys, permits }: SemaphorePlan,
  acquisition: Acquisition,
  signal: AbortSignalLike,
): Promise<Picture> {
  const [place] = acquisition.queues;
  const token = place?.revision ?? 0n;
  const inOrder = { by: 'createRevision', order: 'ascend' } as const;
  const reads: Operation[] = [
    { op: 'range', key: keys.limit },
    {
      op: 'range',
      ...prefixSpan(keys.queue.rivals),
      maxCreateRevision: token,
      sort: inOrder,
      keysOnly: true,
    },
    { op: 'range', ...prefixSpan(keys.queue.rivals), sort: inOrder, limit: 1 },
    { op: 'range', ...keys.slots, keysOnly: true },
  ];
  const { results, revision } = await untilReached(coordinator.clock, signal, () =>
    coordinator.txn({ compare: [], success: reads, failure: [] }, { signal }),
  );
  const [limits, queue, firsts, slots] = results.map(kvsOf);
  const at = queue?.findIndex(({ key }) => key === place?.key) ?? -1;
  const own = queue?.[at];
  if (own?.createRevision !== token) {
    // It may have gone with the lease; a renewal tells.
    await acquisition.session.renewNow();
    throw acquisition.lostWhileWaiting(acquisition.session.lossCause ?? 'key-deleted');
  }
  if (own.modRevision !== token) throw acquisition.lostWhileWaiting('foreign-write');
  const limit = limits?.[0] && new TextDecoder().decode(limits[0].value);
  if (limit !== undefined && limit !== String(permits)) {
    const stored = readLimit(limit) ?? JSON.stringify(limit);
    const why = `semaphore "${name}" has ${stored} permits in etcd; resize() changes that for everybody`;
    throw new LockkeeperError('invalid-option', `permits is ${permits}; ${why}`);
  }
  const takenSlots = new Set(slots?.map(({ key }) => key));
  return { limit, first: firsts?.[0], before: at, takenSlots, revision };
}

/** One try to take one slot, and the key that bars copies of it. */
interface Try {
  readonly key: string;
  readonly bar: string;
}

/**
 * Those before us who have no slot yet take one too, the first of them the lowest that is free. Whoever comes at the
 * same time thus aims at another one; if all went for the same, a thousand would need half a million tries.
 */
function freeSlot({ keys, permits }: SemaphorePlan, { before, takenSlots }: Picture): string | undefined {
  const all = Array.from({ length: permits }, (_, slot) => `${keys.slots.key}${slot}`);
  const free = all.filter((key) => !takenSlots.has(key));
  const withoutSlot = Math.max(0, before - takenSlots.size);
  return free[withoutSlot % free.length];
}

/**
 * One grant. It is idempotent: a repeat that finds the slot ours learns that an earlier copy was applied. Once our
 * place in the queue is gone no late copy can take effect; where we go on to another slot, the bar sees to that.
 * @returns the revision of the slot's key, or `undefined` where somebody else was quicker.
 */
async function takeSlot(
  coordinator: Coordinator,
  { keys, permits }: SemaphorePlan,
  acquisition: Acquisition,
  { key, bar }: Try,
  stored: string | undefined,
  signal: AbortSignalLike,
): Promise<bigint | undefined> {
  const [queued] = acquisition.queues;
  if (queued === undefined) return undefined;
  // From now on the key may be there, and every ending looks for it.
  const slot: Place = { key, detailsKey: key, isShared: true, isRewritable: false, revision: undefined };
  acquisition.places = [...acquisition.places, slot];
  const { limit } = keys;
  const call = { signal, timeoutMs: acquisition.session.attemptTimeoutMs };
  let copies = 0;
  const reply = await untilReached(coordinator.clock, signal, () => {
    copies += 1;
    return onLease(
      acquisition,
      coordinator.txn(
        {
          compare: [
            ...acquisition.standsAt(queued),
            { key, target: 'createRevision', is: '=', to: 0n },
            { key: bar, target: 'createRevision', is: '=', to: 0n },
            stored === undefined
              ? { key: limit, target: 'createRevision', is: '=', to: 0n }
              : { key: limit, target: 'value', is: '=', to: stored },
            acquisition.lineageCompare,
          ],
          success: [
            { op: 'put', key, value: acquisition.details, lease: acquisition.session.lease },
            ...(stored === undefined ? [{ op: 'put' as const, key: limit, value: String(permits) }] : []),
          ],
          failure: [{ op: 'range', key }],
        },
        call,
      ),
    );
  });
  const isOurs = (kv: KeyValue) => readContender(kv).acquisition === acquisition.id;
  let ours = kvsOf(reply.results[0]).find(isOurs);
  if (reply.succeeded) slot.revision = reply.revision;
  else if (ours === undefined && copies > 1)
    ours = (await barSlot(coordinator, acquisition, { key, bar }, call)).find(isOurs);
  slot.revision ??= ours?.modRevision;
  if (slot.revision === undefined) acquisition.places = acquisition.places.filter((place) => place !== slot);
  return slot.revision;
}

/** A lease that is gone is the end of the session, and of the wait: also where the refusal is of a whole batch. */
async function onLease(acquisition: Acquisition, grant: Promise<TxnReply>): Promise<TxnReply> {
  try {
    return await grant;
  } catch (error) {
    if (!(error instanceof LockkeeperError) || error.code !== 'lease-not-found') throw error;
    acquisition.session.end('revoked');
    throw acquisition.lostWhileWaiting(acquisition.session.lossCause ?? 'revoked');
  }
}

/**
 * From now on no copy of this try takes effect that is still on its way: once the slot was free again it would, and we
 * had two. @returns what has come to stand in the slot until then.
 */
async function barSlot(
  coordinator: Coordinator,
  acquisition: Acquisition,
  { key, bar }: Try,
  call: CallOptions & { readonly signal: AbortSignalLike },
): Promise<readonly KeyValue[]> {
  const { session } = acquisition;
  session.leaveBehind();
  const { results } = await untilReached(coordinator.clock, call.signal, () =>
    onLease(
      acquisition,
      coordinator.txn(
        {
          compare: [],
          success: [
            { op: 'put', key: bar, value: '', lease: session.lease },
            { op: 'range', key },
          ],
          failure: [],
        },
        call,
      ),
    ),
  );
  return kvsOf(results[1]);
}

/** Waits until so many have left that it may be our turn, or until it is time to look anyway. */
async function somebodyLeft(
  coordinator: Coordinator,
  { keys, permits }: SemaphorePlan,
  acquisition: Acquisition,
  { before, revision }: Picture,
  wake: WakeUp,
  signal: AbortSignalLike,
): Promise<void> {
  let missing = Math.max(1, before - permits + 1);
  const isGone = (event: WatchEvent) => event.type === 'delete';
  const [place] = acquisition.queues;
  // Ours was put before: this one is by another hand, and costs us the place.
  const isOverwritten = (event: WatchEvent) => event.type === 'put' && event.kv.key === place?.key;
  const watchSpan = (span: Required<KeySpan>, onGone: (count: number) => void) =>
    coordinator.watch(
      { ...span, startRevision: revision + 1n },
      {
        onEvents: (events) => {
          if (events.some(isOverwritten)) wake.ring();
          onGone(events.filter(isGone).length);
        },
        onEnd: () => wake.ring(),
      },
    );
  using _queue = watchSpan(prefixSpan(keys.queue.rivals), (count) => {
    missing -= count;
    if (missing <= 0) wake.ring();
  });
  // Whoever asked for another number than there is now learns it at once, and leaves the queue to the others.
  using _limit = coordinator.watch(
    { key: keys.limit, startRevision: revision + 1n },
    { onEvents: () => wake.ring(), onEnd: () => wake.ring() },
  );
  // In the queue early enough, but every slot is taken: the limit was lowered, say.
  using _slots = watchSpan(keys.slots, (count) => {
    if (before < permits && count > 0) wake.ring();
  });
  await wake.next(coordinator.clock, signal);
}

function kvsOf(result: OperationResult | undefined): readonly KeyValue[] {
  return result?.op === 'range' ? result.kvs : [];
}
