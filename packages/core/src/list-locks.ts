import type {
  CallOptions,
  Coordinator,
  KeySpan,
  KeyValue,
  Operation,
  RangeResult,
} from './coordinator/coordinator.ts';
import { prefixSpan } from './coordinator/coordinator.ts';
import { LockkeeperError } from './errors.ts';
import {
  asRange,
  checkCount,
  describeContender,
  type InspectedContender,
  type OperatorHost,
  textOf,
} from './inspect.ts';
import { type KeyLayout, keySegment } from './lock/key-layout.ts';
import {
  belongTogether,
  checkKind,
  countHolders,
  LOCK_KINDS,
  type LockKind,
  type LockQueue,
  queueOf,
} from './lock-kind.ts';
import { AbortScope } from './signals.ts';
import { checkObject, invalidOption } from './validation.ts';

export interface ListOptions extends CallOptions {
  /** Default: all. */
  readonly kinds?: readonly LockKind[] | undefined;
  /** How many keys are read at a time, 1 to 500. Default 500. */
  readonly pageSize?: number | undefined;
}

/** Who holds, without what only `inspect` asks for. */
export type ListedContender = Omit<InspectedContender, 'ttlLeftMs' | 'value'>;

/** A lock that somebody has or waits for. Plain data, ready for JSON. */
export interface ListedLock {
  readonly name: string;
  readonly kind: LockKind;
  /** The first of the holders. `undefined`: it left while this was read. */
  readonly holder: ListedContender | undefined;
  readonly holders: number;
  readonly waiters: number;
}

/** Names have up to 3 KB once they are encoded, and so has the namespace: 500 keys stay far below 4 MB. */
const LARGEST_PAGE = 500;
/** Holders looked at in one transaction; each takes up to two of the 128 operations that etcd allows. */
const BATCH = 50;

/** Every lock of the namespace that somebody stands in line for, in the order of the names. */
export async function listLocks(
  { options: { coordinator }, layout, closing }: OperatorHost,
  options: ListOptions,
): Promise<ListedLock[]> {
  checkObject('options', options);
  const kinds = checkKinds(options.kinds ?? LOCK_KINDS);
  const pageSize = checkCount('pageSize', options.pageSize ?? LARGEST_PAGE, LARGEST_PAGE);
  using scope = new AbortScope().follow(closing).follow(options.signal);
  const call = { timeoutMs: options.timeoutMs, signal: scope.signal };
  const crowds: Crowd[] = [];
  for (const kind of kinds) crowds.push(...(await readKind(coordinator, layout, kind, pageSize, call)));
  const listed: ListedLock[] = [];
  for (let at = 0; at < crowds.length; at += BATCH) {
    const batch = crowds.slice(at, at + BATCH);
    listed.push(...(await describeAll(coordinator, batch, layout.lineage, call)));
  }
  const order = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
  return listed.sort((a, b) => order(a.name, b.name) || order(a.kind, b.kind));
}

function checkKinds(kinds: unknown): readonly LockKind[] {
  if (!Array.isArray(kinds)) throw invalidOption('kinds', kinds, 'expected an array');
  return [...new Set(kinds.map((kind, index) => checkKind(`kinds[${index}]`, kind)))];
}

/** The contenders for one name, in the order in which they came. */
interface Crowd {
  readonly queue: LockQueue;
  readonly keys: KeyValue[];
}

async function readKind(
  coordinator: Coordinator,
  layout: KeyLayout,
  kind: LockKind,
  pageSize: number,
  call: CallOptions,
): Promise<Iterable<Crowd>> {
  const folder = layout.folders[kind];
  const crowds = new Map<string, Crowd | undefined>();
  for await (const kv of keysIn(coordinator, prefixSpan(folder), pageSize, call)) {
    const end = kv.key.indexOf('/', folder.length);
    const segment = kv.key.slice(folder.length, Math.max(end, folder.length));
    if (!crowds.has(segment)) {
      const name = nameOf(segment);
      crowds.set(segment, name === undefined ? undefined : { queue: queueOf(layout, kind, name), keys: [] });
    }
    crowds.get(segment)?.keys.push(kv);
  }
  const all = [...crowds.values()].flatMap((crowd) => crowd ?? []);
  for (const { keys } of all) keys.sort((a, b) => Number(a.createRevision - b.createRevision));
  return all;
}

/** `undefined` for what no name of ours comes to. */
function nameOf(segment: string): string | undefined {
  try {
    const name = decodeURIComponent(segment);
    return keySegment('name', name) === segment ? name : undefined;
  } catch {
    return undefined;
  }
}

async function* keysIn(
  coordinator: Coordinator,
  span: Required<KeySpan>,
  pageSize: number,
  call: CallOptions,
): AsyncGenerator<KeyValue, void, undefined> {
  for (let { key } = span; ; ) {
    const page: RangeResult = await coordinator.range(
      { key, rangeEnd: span.rangeEnd, limit: pageSize, keysOnly: true },
      call,
    );
    yield* page.kvs;
    const last = page.kvs.at(-1);
    if (last === undefined || page.count <= page.kvs.length) return;
    const next = `${last.key}\0`;
    // A key that is no UTF-8 is not the one we would go on from.
    if (next === key) throw new LockkeeperError('unexpected-reply', `a key below ${span.key} is not UTF-8`);
    key = next;
  }
}

async function describeAll(
  coordinator: Coordinator,
  crowds: readonly Crowd[],
  lineageKey: string,
  call: CallOptions,
): Promise<ListedLock[]> {
  const firsts = crowds.map(({ queue, keys: [first] }) =>
    first === undefined ? [] : lookAt(queue, first.key),
  );
  const success: Operation[] = [{ op: 'range', key: lineageKey }, ...firsts.flat()];
  const reply = await coordinator.txn({ compare: [], success, failure: [] }, call);
  const [lineage, ...found] = reply.results.map((result) => asRange(result).kvs[0]);
  return crowds.map(({ queue, keys }, index) => {
    const [kv, details = kv] = found.splice(0, firsts[index]?.length);
    const holders = countHolders(keys.map(({ key }) => queue.modeOf(key)));
    return {
      name: queue.name,
      kind: queue.kind,
      holder:
        kv !== undefined && kv.createRevision === keys[0]?.createRevision
          ? summarize(queue, kv, details, textOf(lineage))
          : undefined,
      holders,
      waiters: keys.length - holders,
    };
  });
}

/** What a candidate proclaims may be long, so it is left out. */
function lookAt(queue: LockQueue, key: string): Operation[] {
  if (queue.details === undefined) return [{ op: 'range', key }];
  return [
    { op: 'range', key, keysOnly: true },
    { op: 'range', key: queue.detailsKeyOf(key) },
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
