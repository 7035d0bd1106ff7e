import {
  type CallOptions,
  type Coordinator,
  type KeySpan,
  type KeyValue,
  type Operation,
  prefixSpan,
  type RangeResult,
} from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import { type KeyLayout, keySegment, type LockKind } from '../lock/key-layout.ts';
import { AbortScope } from '../signals.ts';
import { checkCall, invalidOption } from '../validation.ts';
import { type Crowd, crowdOf, type ListedLock } from './crowd.ts';
import { asRange, checkCount, type OperatorHost, textOf } from './inspection.ts';
import { checkKind, LOCK_KINDS } from './lock-kind.ts';

export interface ListOptions extends CallOptions {
  /** Default: all. */
  readonly kinds?: readonly LockKind[] | undefined;
  /** How many keys are read at a time, 1 to 500. Default 500. */
  readonly pageSize?: number | undefined;
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
  const { signal, timeoutMs } = checkCall(options);
  const kinds = checkKinds(options.kinds ?? LOCK_KINDS);
  const pageSize = checkCount('pageSize', options.pageSize ?? LARGEST_PAGE, LARGEST_PAGE);
  using scope = new AbortScope().follow(closing).follow(signal);
  const call = { timeoutMs, signal: scope.signal };
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

async function readKind(
  coordinator: Coordinator,
  layout: KeyLayout,
  kind: LockKind,
  pageSize: number,
  call: CallOptions,
): Promise<Iterable<Crowd>> {
  const folder = layout.folders[kind];
  const found = new Map<string, KeyValue[]>();
  for await (const kv of keysIn(coordinator, prefixSpan(folder), pageSize, call)) {
    const end = kv.key.indexOf('/', folder.length);
    const segment = kv.key.slice(folder.length, Math.max(end, folder.length));
    const keys = found.get(segment);
    if (keys === undefined) found.set(segment, [kv]);
    else keys.push(kv);
  }
  return [...found].flatMap(([segment, keys]) => {
    const name = nameOf(segment);
    return (name === undefined ? undefined : crowdOf(layout, kind, name, keys)) ?? [];
  });
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
  const success: Operation[] = [{ op: 'range', key: lineageKey }, ...crowds.flatMap(({ lookAt }) => lookAt)];
  const reply = await coordinator.txn({ compare: [], success, failure: [] }, call);
  const [lineage, ...found] = reply.results.map((result) => asRange(result).kvs[0]);
  return crowds.map(({ lookAt, list }) => list(found.splice(0, lookAt.length), textOf(lineage)));
}
