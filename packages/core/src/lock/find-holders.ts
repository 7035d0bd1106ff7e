import type { CallOptions, Coordinator, KeyValue, Operation } from '../coordinator/coordinator.ts';
import { readContender } from './acquisition.ts';
import type { Queue } from './key-layout.ts';

/** Of a queue that begins with readers, how many of them are looked at. */
const MOST_READERS = 100;

/**
 * The acquisitions that hold, in any of the queues, at one revision: the first of each, and where readers stand first,
 * all of them before the next writer. Other programs' holders are left out: they have no acquisition.
 */
export async function findHolders(
  coordinator: Coordinator,
  queues: readonly Queue[],
  call: CallOptions,
): Promise<readonly { readonly acquisition: string }[]> {
  const success = queues.map(({ rivals, readers }): Operation => {
    const limit = readers === undefined ? 1 : MOST_READERS;
    return { op: 'range', ...rivals, sort: { by: 'createRevision', order: 'ascend' }, limit };
  });
  const { results } = await coordinator.txn({ compare: [], success, failure: [] }, call);
  const holders = queues.flatMap((queue, index) => {
    const result = results[index];
    const kvs = result?.op === 'range' ? result.kvs : [];
    return firstOf(kvs, queue.readers);
  });
  const acquisitions = new Set(holders.flatMap((kv) => readContender(kv).acquisition ?? []));
  return [...acquisitions].map((acquisition) => ({ acquisition }));
}

function firstOf(kvs: readonly KeyValue[], readers: string | undefined): readonly KeyValue[] {
  const isReader = ({ key }: KeyValue) => readers !== undefined && key.startsWith(readers);
  const others = kvs.findIndex((kv) => !isReader(kv));
  return others === 0 ? kvs.slice(0, 1) : kvs.slice(0, others < 0 ? kvs.length : others);
}
