import type { CallOptions, Coordinator, KeyValue, Operation } from '../coordinator/coordinator.ts';
import { prefixSpan } from '../coordinator/coordinator.ts';
import { readContender } from '../lock/acquisition.ts';
import { MOST_PERMITS, readLimit, type SemaphoreKeys, slotOf } from '../lock/key-layout.ts';
import { PermitToken, waiterText } from '../semaphore/permit-token.ts';
import {
  asRange,
  describeOwner,
  type InspectOptions,
  inspecting,
  type KeyOwner,
  type LeaseLeft,
  missingLineage,
  type OperatorHost,
  oddities,
  textOf,
  tokenOf,
} from './inspection.ts';
import { readTimes } from './lease-times.ts';

/** Who holds a permit. What it tells of itself is not verified. */
export interface InspectedPermit extends KeyOwner, LeaseLeft {
  readonly slot: number;
  /** What it holds by; `keeper.break` takes it. `undefined` where it is foreign. */
  readonly token: PermitToken | undefined;
}

/** Who waits for a permit. */
export interface InspectedPermitWaiter extends KeyOwner, LeaseLeft {
  /**
   * Names its place in the queue for `keeper.break`. A text, and not a fencing token: that comes with a slot.
   * `undefined` where it is foreign.
   */
  readonly token: string | undefined;
}

/** A semaphore at one revision of etcd. Plain data, ready for JSON: a token prints as its one line of text. */
export interface SemaphoreInspection {
  readonly name: string;
  readonly kind: 'semaphore';
  /** How many may hold at once; `undefined` before the first grant. */
  readonly permits: number | undefined;
  /** The etcd history that the tokens belong to; `undefined` where its key is gone. */
  readonly lineage: string | undefined;
  /** Of the read. Decimal. */
  readonly revision: string;
  /** By slot. More than there are permits after the limit was lowered. */
  readonly holders: readonly InspectedPermit[];
  /** In the order in which they will be served. */
  readonly waiters: readonly InspectedPermitWaiter[];
  /** In all, those beyond `limit` included. */
  readonly contenders: number;
  /** What an operator should know, a sentence each; empty where all is well. */
  readonly warnings: readonly string[];
}

/** The picture of one semaphore: queue, slots and limit in one linearizable read, then its leases' times. */
export function inspectSemaphore(
  host: OperatorHost,
  name: string,
  options: InspectOptions,
): Promise<SemaphoreInspection> {
  const {
    options: { coordinator },
    layout,
  } = host;
  return inspecting(host, options, async ({ limit, call }) => {
    const keys = layout.semaphore(name);
    const read = await readSemaphore(coordinator, keys, limit, layout.lineage, call);
    const slots = read.slots.slice(0, limit);
    const waiters = read.waiters.slice(0, limit - slots.length);
    const leases = new Set([...slots.map(({ kv }) => kv.lease), ...waiters.map(({ lease }) => lease)]);
    const times = await readTimes(coordinator, leases, call);
    const { lineage } = read;
    return {
      name,
      kind: 'semaphore',
      permits: read.permits,
      lineage,
      revision: `${read.revision}`,
      holders: slots.map(({ slot, kv }) => ({
        ...describePermit(slot, kv, lineage),
        ttlLeftMs: times.leftMs.get(kv.lease),
      })),
      waiters: waiters.map((kv) => {
        const owner = describeOwner(kv, kv);
        const token = tokenOf(lineage, kv.createRevision, owner.acquisition);
        return { ...owner, token: token && waiterText(token), ttlLeftMs: times.leftMs.get(kv.lease) };
      }),
      contenders: read.slots.length + read.waiting,
      warnings: [...missingLineage(layout.lineage, lineage), ...read.warnings, ...times.warnings],
    };
  });
}

/** A holder without what etcd must be asked for besides. */
export function describePermit(
  slot: number,
  kv: KeyValue,
  lineage: string | undefined,
): Omit<InspectedPermit, 'ttlLeftMs'> {
  const owner = describeOwner(kv, kv);
  const token = tokenOf(lineage, kv.createRevision, owner.acquisition);
  return { ...owner, slot, token: token && new PermitToken(slot, token) };
}

export interface TakenSlot {
  readonly slot: number;
  readonly kv: KeyValue;
}

interface SemaphoreRead {
  readonly permits: number | undefined;
  readonly slots: readonly TakenSlot[];
  /** In the order in which they came, as many as were read. */
  readonly waiters: readonly KeyValue[];
  readonly waiting: number;
  readonly lineage: string | undefined;
  readonly revision: bigint;
  readonly warnings: readonly string[];
}

async function readSemaphore(
  coordinator: Coordinator,
  keys: SemaphoreKeys,
  limit: number,
  lineageKey: string,
  call: CallOptions,
): Promise<SemaphoreRead> {
  const success: Operation[] = [
    { op: 'range', key: lineageKey },
    { op: 'range', key: keys.limit },
    { op: 'range', ...keys.slots },
    // Whoever holds was among the first then, and is now.
    {
      op: 'range',
      ...prefixSpan(keys.queue.keys),
      sort: { by: 'createRevision', order: 'ascend' },
      limit: MOST_PERMITS + limit,
    },
  ];
  const { results, revision } = await coordinator.txn({ compare: [], success, failure: [] }, call);
  const [lineage, limitRead, taken, queue] = results.map(asRange);
  const slots = slotsOf(keys, taken?.kvs ?? []);
  const queued = queue?.kvs ?? [];
  const holding = new Set(slots.flatMap(({ kv }) => readContender(kv).acquisition ?? []));
  const waiters = queued.filter((kv) => !holding.has(readContender(kv).acquisition ?? ''));
  const stored = textOf(limitRead?.kvs[0]);
  const permits = stored === undefined ? undefined : readLimit(stored);
  return {
    permits,
    slots,
    waiters,
    waiting: (queue?.count ?? 0) - (queued.length - waiters.length),
    lineage: textOf(lineage?.kvs[0]),
    revision,
    warnings: [
      ...(stored !== undefined && permits === undefined
        ? [
            `the key ${JSON.stringify(keys.limit)} says ${JSON.stringify(stored)}, which is no number of permits`,
          ]
        : []),
      ...slotOddities(keys, taken?.kvs ?? [], queued),
      ...waiters.flatMap(queueOddities),
    ],
  };
}

/** By slot. */
export function slotsOf(keys: SemaphoreKeys, kvs: readonly KeyValue[]): TakenSlot[] {
  const taken = kvs.flatMap((kv) => {
    const slot = slotOf(keys, kv.key);
    return slot === undefined ? [] : { slot, kv };
  });
  return taken.sort((a, b) => a.slot - b.slot);
}

/** What takes a slot without being a permit that somebody holds and keeps alive. */
function slotOddities(keys: SemaphoreKeys, kvs: readonly KeyValue[], queued: readonly KeyValue[]): string[] {
  const inLine = new Set(queued.map((kv) => readContender(kv).acquisition));
  return kvs.flatMap((kv) => {
    const shown = JSON.stringify(kv.key);
    const { acquisition } = readContender(kv);
    const odd = oddities(kv, 'the permit');
    if (slotOf(keys, kv.key) === undefined) odd.push(`the key ${shown} is no slot: nobody looks at it`);
    else if (acquisition === undefined) odd.push(`the key ${shown} is another program's, and takes the slot`);
    else if (!inLine.has(acquisition))
      odd.push(`the key ${shown} takes the slot for somebody who is not in the queue any more`);
    return odd;
  });
}

function queueOddities(kv: KeyValue): string[] {
  const shown = JSON.stringify(kv.key);
  const odd = oddities(kv, 'its place');
  if (readContender(kv).acquisition === undefined)
    odd.push(
      `the key ${shown} is another program's: it takes a permit's place in the queue, and never a slot`,
    );
  return odd;
}
