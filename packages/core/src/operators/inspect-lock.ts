import type { FencingToken } from '@lockkeeper/fencing';
import { type CallOptions, type Coordinator, type KeyValue, prefixSpan } from '../coordinator/coordinator.ts';
import { isDowngraded } from '../lock/acquisition.ts';
import { belongTogether, countHolders, detailsKeyOf, type Mode, modeOf, spanOf } from '../lock/queue-view.ts';
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
import { type LockQueue, type QueueKind, queueOf } from './lock-kind.ts';

/** Who stands behind a key in a queue, for people and for JSON. */
export interface InspectedContender extends KeyOwner, LeaseLeft {
  /** Only in read/write locks. */
  readonly mode: Mode | undefined;
  /** Only in elections: what the candidate proclaims. */
  readonly value: string | undefined;
  /** What it holds by, or will; `keeper.break` takes it. `undefined` where it is foreign. */
  readonly token: FencingToken | undefined;
}

/** A lock at one revision of etcd. Plain data, ready for JSON: a token prints as its one line of text. */
export interface LockInspection {
  readonly name: string;
  readonly kind: QueueKind;
  /** The etcd history that the tokens belong to; `undefined` where its key is gone. */
  readonly lineage: string | undefined;
  /** Of the read. Decimal. */
  readonly revision: string;
  /** At most one, except for the readers of a read/write lock. Empty: free. */
  readonly holders: readonly InspectedContender[];
  /** In the order in which they will be served. */
  readonly waiters: readonly InspectedContender[];
  /** In all, those beyond `limit` included. */
  readonly contenders: number;
  /** What an operator should know, a sentence each; empty where all is well. */
  readonly warnings: readonly string[];
}

/** The picture of one lock: the queue in one linearizable read, then its leases' times. */
export function inspectLock(
  host: OperatorHost,
  kind: QueueKind,
  name: string,
  options: InspectOptions,
): Promise<LockInspection> {
  const {
    options: { coordinator },
    layout,
  } = host;
  return inspecting(host, options, async ({ limit, call }) => {
    const queue = queueOf(layout, kind, name);
    const read = await readQueue(coordinator, queue, limit, layout.lineage, call);
    const { kvs, detailsOf, contenders, lineage, revision } = read;
    const times = await readTimes(coordinator, new Set(kvs.map(({ lease }) => lease)), call);
    const shown = kvs.map((kv) => ({
      ...describeContender(queue, kv, detailsOf(kv), lineage),
      ttlLeftMs: times.leftMs.get(kv.lease),
    }));
    const holders = countHolders(shown.map(({ mode }) => mode));
    return {
      name,
      kind,
      lineage,
      revision: `${revision}`,
      holders: shown.slice(0, holders),
      waiters: shown.slice(holders),
      contenders,
      warnings: [
        ...missingLineage(layout.lineage, lineage),
        ...kvs.flatMap((kv) =>
          oddities(kv, kind === 'election' || isDowngraded(kv) ? undefined : 'the lock'),
        ),
        ...times.warnings,
      ],
    };
  });
}

/** A contender without what etcd must be asked for besides. */
export function describeContender(
  queue: LockQueue,
  kv: KeyValue,
  details: KeyValue | undefined,
  lineage: string | undefined,
): Omit<InspectedContender, 'ttlLeftMs'> {
  const owner = describeOwner(kv, details);
  const mode = modeOf(queue, kv);
  return {
    ...owner,
    mode,
    value: queue.kind === 'election' ? new TextDecoder().decode(kv.value) : undefined,
    token: tokenOf(lineage, kv.createRevision, owner.acquisition, mode === 'read'),
  };
}

interface QueueRead {
  /** In the order in which they came. */
  readonly kvs: readonly KeyValue[];
  readonly detailsOf: (kv: KeyValue) => KeyValue | undefined;
  readonly contenders: number;
  readonly lineage: string | undefined;
  readonly revision: bigint;
}

async function readQueue(
  coordinator: Coordinator,
  queue: LockQueue,
  limit: number,
  lineageKey: string,
  call: CallOptions,
): Promise<QueueRead> {
  const sort = { by: 'createRevision', order: 'ascend' } as const;
  // Some of the details may be of candidates who have gone; their owners are about to delete them.
  const details =
    queue.details === undefined
      ? undefined
      : { op: 'range' as const, ...prefixSpan(queue.details), sort, limit: 2 * limit };
  const reply = await coordinator.txn(
    {
      compare: [],
      success: [
        { op: 'range', key: lineageKey },
        { op: 'range', ...spanOf(queue), sort, limit },
        ...(details === undefined ? [] : [details]),
      ],
      failure: [],
    },
    call,
  );
  const [lineage, found, beside] = reply.results.map(asRange);
  const kvs = found?.kvs ?? [];
  const byKey = new Map((queue.details === undefined ? kvs : (beside?.kvs ?? [])).map((kv) => [kv.key, kv]));
  return {
    kvs,
    detailsOf: (kv) => {
      const own = byKey.get(detailsKeyOf(queue, kv.key));
      return own !== undefined && belongTogether(kv, own) ? own : undefined;
    },
    contenders: found?.count ?? 0,
    lineage: textOf(lineage?.kvs[0]),
    revision: reply.revision,
  };
}
