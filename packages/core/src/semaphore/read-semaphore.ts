import { type Coordinator, type KeyValue, type Operation, prefixSpan } from '../coordinator/coordinator.ts';
import { untilReached } from '../lock/back-off.ts';
import type { SemaphoreKeys } from '../lock/key-layout.ts';
import type { AbortSignalLike } from '../signals.ts';

/** A whole semaphore at one revision. Of values only those of the limit and of the first in line. */
export interface SemaphoreRead {
  readonly limit: KeyValue | undefined;
  readonly first: KeyValue | undefined;
  /** First come first. */
  readonly queue: readonly KeyValue[];
  readonly slots: readonly KeyValue[];
  readonly revision: bigint;
}

/** Linearizable; repeated while etcd cannot be reached. */
export async function readSemaphore(
  coordinator: Coordinator,
  { limit, queue, slots }: SemaphoreKeys,
  signal: AbortSignalLike,
): Promise<SemaphoreRead> {
  const inOrder = { by: 'createRevision', order: 'ascend' } as const;
  const success: Operation[] = [
    { op: 'range', key: limit },
    { op: 'range', ...prefixSpan(queue.rivals), sort: inOrder, limit: 1 },
    { op: 'range', ...prefixSpan(queue.rivals), sort: inOrder, keysOnly: true },
    { op: 'range', ...slots, keysOnly: true },
  ];
  const { results, revision } = await untilReached(coordinator.clock, signal, () =>
    coordinator.txn({ compare: [], success, failure: [] }, { signal }),
  );
  const [limits = [], firsts = [], contenders = [], permits = []] = results.map((result) =>
    result.op === 'range' ? result.kvs : [],
  );
  return { limit: limits[0], first: firsts[0], queue: contenders, slots: permits, revision };
}
