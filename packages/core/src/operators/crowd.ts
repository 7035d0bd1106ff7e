import type { KeyValue, Operation } from '../coordinator/coordinator.ts';
import type { KeyLayout, LockKind } from '../lock/key-layout.ts';
import { belongTogether, countHolders, detailsKeyOf, modeOf } from '../lock/queue-view.ts';
import { describeContender, type InspectedContender } from './inspect-lock.ts';
import { describePermit, type InspectedPermit, slotsOf } from './inspect-semaphore.ts';
import { type LockQueue, type QueueKind, queueOf } from './lock-kind.ts';

interface Listed<Kind extends LockKind, Holder> {
  readonly name: string;
  readonly kind: Kind;
  /** The first of the holders. `undefined`: it left while this was read, or nobody holds. */
  readonly holder: Holder | undefined;
  readonly holders: number;
  readonly waiters: number;
}

/** Who holds, without what only `inspect` asks for. */
export type ListedContender = Omit<InspectedContender, 'ttlLeftMs' | 'value'>;

/** Who holds a permit, without what only `inspect` asks for. */
export type ListedPermit = Omit<InspectedPermit, 'ttlLeftMs'>;

/** A lock that somebody has or waits for. Plain data, ready for JSON. */
export type ListedLock = Listed<QueueKind, ListedContender> | Listed<'semaphore', ListedPermit>;

/** Those who stand in line for one name, known by their keys. */
export interface Crowd {
  /** What must be read besides: who the first of the holders is. */
  readonly lookAt: readonly Operation[];
  /** @param found - what was read: one key, or none, for each of `lookAt`. */
  readonly list: (found: readonly (KeyValue | undefined)[], lineage: string | undefined) => ListedLock;
}

/**
 * @param keys - all below the name, in any order.
 * @returns `undefined` where nobody stands in line.
 */
export function crowdOf(
  layout: KeyLayout,
  kind: LockKind,
  name: string,
  keys: readonly KeyValue[],
): Crowd | undefined {
  return kind === 'semaphore'
    ? semaphoreCrowd(layout, name, keys)
    : queueCrowd(queueOf(layout, kind, name), keys);
}

function queueCrowd(queue: LockQueue, keys: readonly KeyValue[]): Crowd | undefined {
  const inOrder = [...keys].sort(byCreation);
  const [first] = inOrder;
  if (first === undefined) return undefined;
  return {
    lookAt: lookAt(queue, first.key),
    list: ([kv, details = kv], lineage) => {
      const found = isSame(kv, first) ? kv : undefined;
      // Only the first can be a writer that has become a reader, which its value tells.
      const modes = [found ?? first, ...inOrder.slice(1)].map((each) => modeOf(queue, each));
      const holders = countHolders(modes);
      return {
        name: queue.name,
        kind: queue.kind,
        holder: found && summarize(queue, found, details, lineage),
        holders,
        waiters: keys.length - holders,
      };
    },
  };
}

function semaphoreCrowd(layout: KeyLayout, name: string, keys: readonly KeyValue[]): Crowd | undefined {
  const places = layout.semaphore(name);
  const slots = slotsOf(places, keys);
  const queued = keys.filter(({ key }) => key.startsWith(places.queue.keys)).length;
  if (slots.length + queued === 0) return undefined;
  const [first] = [...slots].sort((a, b) => byCreation(a.kv, b.kv));
  return {
    lookAt: first === undefined ? [] : [{ op: 'range', key: first.kv.key }],
    list: ([kv], lineage) => ({
      name,
      kind: 'semaphore',
      holder:
        first !== undefined && isSame(kv, first.kv) ? describePermit(first.slot, kv, lineage) : undefined,
      holders: slots.length,
      // Whoever has a slot keeps its place in the queue.
      waiters: Math.max(0, queued - slots.length),
    }),
  };
}

const byCreation = (a: KeyValue, b: KeyValue) => Number(a.createRevision - b.createRevision);

const isSame = (kv: KeyValue | undefined, first: KeyValue): kv is KeyValue =>
  kv?.createRevision === first.createRevision;

/** What a candidate proclaims may be long, so it is left out. */
function lookAt(queue: LockQueue, key: string): Operation[] {
  if (queue.details === undefined) return [{ op: 'range', key }];
  return [
    { op: 'range', key, keysOnly: true },
    { op: 'range', key: detailsKeyOf(queue, key) },
  ];
}

function summarize(
  queue: LockQueue,
  kv: KeyValue,
  details: KeyValue | undefined,
  lineage: string | undefined,
): ListedContender {
  const own = details !== undefined && belongTogether(kv, details) ? details : undefined;
  const { value: _, ...summary } = describeContender(queue, kv, own, lineage);
  return summary;
}
