import type { CallOptions, Coordinator, KeySpan, KeyValue, Operation } from '../coordinator/coordinator.ts';
import { prefixSpan } from '../coordinator/coordinator.ts';
import { isDowngraded, readContender } from './acquisition.ts';
import type { Queue } from './key-layout.ts';

// A queue as somebody sees it who need not stand in it.

/** Of read/write locks. */
export type Mode = 'read' | 'write';

/** Every contender's key, in whichever mode. */
export function spanOf({ family, keys }: Queue): Required<KeySpan> {
  return prefixSpan(family ?? keys);
}

/**
 * In which mode a contender came. A key of neither folder, which only another program can have put, blocks writers
 * alone: like a reader.
 */
export function cameAs({ writers }: Queue, key: string): Mode | undefined {
  if (writers === undefined) return undefined;
  return key.startsWith(writers) ? 'write' : 'read';
}

/** What it is now, where the value is known: a writer that has become a reader keeps its key. */
export function modeOf(queue: Queue, kv: KeyValue): Mode | undefined {
  const mode = cameAs(queue, kv.key);
  return mode === 'write' && isDowngraded(kv) ? 'read' : mode;
}

/** Whoever has a key here that was created earlier is waited for, unless it has become a reader as well. */
export function rivalsOf(queue: Queue, mode: Mode | undefined): Required<KeySpan> {
  return queue.writers !== undefined && mode === 'read' ? prefixSpan(queue.writers) : spanOf(queue);
}

/** Whether the last of the earlier rivals is waited for: readers hold together, with a writer that became one too. */
export function isInTheWay(rival: KeyValue, mode: Mode | undefined): boolean {
  return mode !== 'read' || !isDowngraded(rival);
}

/** The key that says who is behind another one; mostly the same. */
export function detailsKeyOf({ keys, details }: Queue, key: string): string {
  return details === undefined ? key : `${details}${key.slice(keys.length)}`;
}

/**
 * Whether it is from these details that one knows who put the key: details of an earlier candidate in the same
 * place may have been left behind.
 */
export function belongTogether(kv: KeyValue, details: KeyValue): boolean {
  return details.key === kv.key || details.modRevision === kv.createRevision;
}

/** How many of the contenders, in the order in which they came, hold: the first, or every reader before a writer. */
export function countHolders(modes: readonly (Mode | undefined)[]): number {
  if (modes[0] !== 'read') return Math.min(1, modes.length);
  const firstWriter = modes.indexOf('write');
  return firstWriter < 0 ? modes.length : firstWriter;
}

/** Of a queue that begins with readers, how many of them are looked at. */
const MOST_READERS = 100;

/** A holder that a keeper put, and its key in one of the queues. */
export interface Holder {
  readonly acquisition: string;
  readonly kv: KeyValue;
}

/**
 * The acquisitions that hold, in any of the queues, at one revision. Other programs' holders are left out: they have no
 * acquisition; and so are keys without a lease, which nobody keeps any more.
 */
export async function findHolders(
  coordinator: Coordinator,
  queues: readonly Queue[],
  call: CallOptions,
): Promise<readonly Holder[]> {
  const success = queues.map((queue): Operation => {
    const limit = queue.writers === undefined ? 1 : MOST_READERS;
    return { op: 'range', ...spanOf(queue), sort: { by: 'createRevision', order: 'ascend' }, limit };
  });
  const { results } = await coordinator.txn({ compare: [], success, failure: [] }, call);
  const holders = queues.flatMap((queue, index) => {
    const result = results[index];
    const kvs = result?.op === 'range' ? result.kvs : [];
    return kvs.slice(0, countHolders(kvs.map((kv) => modeOf(queue, kv))));
  });
  const byAcquisition = new Map(holders.map((kv) => [readContender(kv).acquisition, kv]));
  return [...byAcquisition].flatMap(([acquisition, kv]) =>
    acquisition === undefined || kv.lease === 0n ? [] : { acquisition, kv },
  );
}
