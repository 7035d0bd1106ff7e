import type {
  CallOptions,
  Coordinator,
  KeyValue,
  OperationResult,
  TxnReply,
} from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import { type Acquisition, type Admit, type Place, readContender } from '../lock/acquisition.ts';
import { untilReached } from '../lock/back-off.ts';
import { readLimit, type SemaphoreKeys } from '../lock/key-layout.ts';
import type { MirrorTable } from '../lock/mirror-table.ts';
import { lostKey } from '../lock/wait-turn.ts';
import type { AbortSignalLike } from '../signals.ts';
import { readSemaphore } from './read-semaphore.ts';
import { PermitSeat, SemaphoreMirror } from './semaphore-mirror.ts';
import { SemaphorePicture } from './semaphore-picture.ts';

/** A semaphore as one of its users sees it. */
export interface SemaphorePlan {
  readonly name: string;
  readonly keys: SemaphoreKeys;
  readonly permits: number;
}

/** Those of a keeper that stand, by what they are of. */
export type SemaphoreMirrors = MirrorTable<SemaphoreMirror>;

/**
 * Admission to a semaphore: among the first of the queue, as many as there are permits, and in a slot. The grant
 * creates the slot's key in a transaction that compares our place in the queue and the number of permits, so etcd
 * itself keeps the limit, whatever a client believes.
 */
export function admission(plan: SemaphorePlan, mirrors: SemaphoreMirrors): Admit {
  return (coordinator, acquisition, mode, signal, onWait) =>
    mode === 'try'
      ? tryNow(coordinator, plan, acquisition, signal)
      : inTurn(coordinator, mirrors, plan, acquisition, signal, onWait);
}

async function inTurn(
  coordinator: Coordinator,
  mirrors: SemaphoreMirrors,
  plan: SemaphorePlan,
  acquisition: Acquisition,
  signal: AbortSignalLike,
  onWait: () => void,
): Promise<{ readonly revision: bigint }> {
  const { keys, permits } = plan;
  const { key, token } = placeOf(acquisition);
  const mirror = mirrors.of(keys.root, (onOver) => new SemaphoreMirror(coordinator, keys, onOver));
  const seat = new PermitSeat({ key, token, permits }, mirror, signal, onWait);
  try {
    for (let tries = 0; ; tries += 1) {
      const told = await seat.next();
      if (typeof told === 'string') throw await lostKey(acquisition, told);
      if ('otherLimit' in told) throw otherLimit(plan, told.otherLimit);
      const revision = await takeSlot(
        coordinator,
        plan,
        acquisition,
        aim(plan, acquisition, told.slot, tries),
        told.stored,
        signal,
      );
      if (revision !== undefined) return { revision };
    }
  } finally {
    seat.leave();
  }
}

/** Looks once, and again only where somebody else was quicker. */
async function tryNow(
  coordinator: Coordinator,
  plan: SemaphorePlan,
  acquisition: Acquisition,
  signal: AbortSignalLike,
): Promise<{ readonly revision: bigint } | { readonly holder: KeyValue | undefined }> {
  const { keys, permits } = plan;
  const { key, token } = placeOf(acquisition);
  for (let tries = 0; ; tries += 1) {
    const read = await readSemaphore(coordinator, keys, signal);
    const picture = new SemaphorePicture(keys, read);
    const shown = picture.show(key, token) ?? 'key-deleted';
    if (shown !== 'waiting') throw await lostKey(acquisition, shown);
    const { limit } = picture;
    if (limit !== undefined && limit !== String(permits)) throw otherLimit(plan, limit);
    const before = read.queue.findIndex((kv) => kv.key === key);
    const free = picture.freeSlots(permits, NONE);
    const slot = before < permits ? free[Math.max(0, before - picture.taken) % free.length] : undefined;
    if (slot === undefined) return { holder: read.first };
    const revision = await takeSlot(
      coordinator,
      plan,
      acquisition,
      aim(plan, acquisition, slot, tries),
      limit,
      signal,
    );
    if (revision !== undefined) return { revision };
  }
}

const NONE: ReadonlySet<number> = new Set();

/** Where we stand in the queue: a semaphore has one. */
function placeOf({ queues: [place] }: Acquisition): { readonly key: string; readonly token: bigint } {
  if (place?.revision === undefined) throw new TypeError('not in line');
  return { key: place.key, token: place.revision };
}

function otherLimit({ name, permits }: SemaphorePlan, limit: string): LockkeeperError {
  const stored = readLimit(limit) ?? JSON.stringify(limit);
  const why = `semaphore "${name}" has ${stored} permits in etcd; resize() changes that for everybody`;
  return new LockkeeperError('invalid-option', `permits is ${permits}; ${why}`);
}

function aim({ keys }: SemaphorePlan, { cancelledKey }: Acquisition, slot: number, tries: number): Try {
  return { key: `${keys.slots.key}${slot}`, bar: `${cancelledKey}.${tries}` };
}

/** One try to take one slot, and the key that bars copies of it. */
interface Try {
  readonly key: string;
  readonly bar: string;
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

function kvsOf(result: OperationResult | undefined): readonly KeyValue[] {
  return result?.op === 'range' ? result.kvs : [];
}
