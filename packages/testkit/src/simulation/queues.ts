import type { WatchEvent } from '@lockkeeper/core';

/** Where a key of a queue lies. */
export interface PlaceInQueue {
  /** Like `lock/red`. */
  readonly queue: string;
  /** Waits for nobody but those who do not share. A writer may come to share while it holds. */
  shares: boolean;
  /** Whether its owner may write to it while it holds. Then comparisons go by its create revision. */
  readonly isRewritable: boolean;
}

/** A key of a queue as it stands in etcd. */
export interface Contender extends PlaceInQueue {
  readonly key: string;
  /** Of this key as it was created this time: `key@revision`. */
  readonly id: string;
  readonly lease: bigint;
  readonly acquisition: string | undefined;
  readonly createRevision: bigint;
  /** All the keys that were created with this one for one acquisition, this one too; gone or not. */
  readonly party: Contender[];
  /** Somebody wrote to it who had no business there, or more than once. */
  spoilt: boolean;
  /** Since when it is intact and nobody stands before it; true time. */
  headSince: number | undefined;
  /** The first revision at which it was so. */
  headRevision: bigint | undefined;
  /** The revision at which it was deleted or spoilt. */
  endRevision: bigint | undefined;
}

/** `undefined` for a key that is of no queue. */
export function placeOf(key: string): PlaceInQueue | undefined {
  const [root, kind, name, next, last] = key.split('/');
  if (root !== 'lockkeeper' || next === undefined) return undefined;
  if (kind === 'lock' || kind === 'election')
    return { queue: `${kind}/${name}`, shares: false, isRewritable: kind === 'election' };
  if (kind === 'rw' && last !== undefined)
    return { queue: `rw/${name}`, shares: next === 'r', isRewritable: next === 'w' };
  if (kind === 'semaphore' && (next === 'queue' || next === 'slots') && last !== undefined) {
    const queue = next === 'slots' ? slotOf(`semaphore/${name}`, last) : `semaphore/${name}`;
    return { queue, shares: false, isRewritable: false };
  }
  return undefined;
}

/** A slot of a semaphore, as a queue of its own: in it nobody waits. */
export function slotOf(semaphore: string, slot: number | string): string {
  return `${semaphore}/${slot}`;
}

/** Of a slot or of the queue before all of them; `undefined`: of no semaphore. */
export function semaphoreOf(queue: string): string | undefined {
  return /^semaphore\/[^/]*/.exec(queue)?.[0];
}

/** A key of that queue which another program would write, without details. */
export function strangersKey(queue: string, lease: bigint): string {
  const semaphore = semaphoreOf(queue);
  if (semaphore !== undefined) return `lockkeeper/${semaphore}/queue/${lease.toString(16)}`;
  return `lockkeeper/${queue}/${queue.startsWith('rw/') ? 'w/' : ''}${lease.toString(16)}`;
}

/** Where the details of a candidate are; `undefined` for any other key. */
export function detailsOf(key: string): string | undefined {
  const candidate = /^lockkeeper\/election\/(.*)$/.exec(key)?.[1];
  return candidate === undefined ? undefined : `${CANDIDATES}${candidate}`;
}

export const CANDIDATES = 'lockkeeper/candidates/';
/** What holders leave until their release, where a lock-delay is asked for. */
export const MARKS = 'lockkeeper/delay/';
export const REQUESTS = 'lockkeeper/requests/';

export function revisionOf(event: WatchEvent): bigint {
  return event.type === 'put' ? event.kv.modRevision : event.modRevision;
}

export function acquisitionIn(value: Uint8Array | undefined): string | undefined {
  const { acquisition } = detailsIn(value);
  return typeof acquisition === 'string' ? acquisition : undefined;
}

export function isDowngraded(value: Uint8Array): boolean {
  return detailsIn(value).downgraded === true;
}

function detailsIn(value: Uint8Array | undefined): { acquisition?: unknown; downgraded?: unknown } {
  try {
    return (JSON.parse(new TextDecoder().decode(value)) as object | null) ?? {};
  } catch {
    return {};
  }
}

/** Notes who has come to be first, in the order in which they came. Readers share: several may be. */
export function noteHeads(queue: Iterable<Contender>, now: number, revision: bigint): void {
  let anybody = false;
  let writer = false;
  for (const contender of queue) {
    const isBlocked = contender.shares ? writer : anybody;
    if (!isBlocked && !contender.spoilt) {
      contender.headSince ??= now;
      contender.headRevision ??= revision;
    }
    anybody = true;
    writer ||= !contender.shares;
    if (writer) return;
  }
}

/**
 * The same of a semaphore: as many are first as there are permits, while a slot is free or theirs. Before the first
 * grant nobody knows how many that are, but one.
 */
export function noteFirstOfMany(
  queue: readonly Contender[],
  slots: readonly Contender[],
  permits: number,
  now: number,
  revision: bigint,
): void {
  for (const [place, contender] of queue.entries()) {
    const holds = slots.some((slot) => isOfSame(slot, contender));
    if (place < permits && !contender.spoilt && (holds || slots.length < permits)) {
      contender.headSince ??= now;
      contender.headRevision ??= revision;
    } else if (!holds) contender.headSince = undefined;
  }
}

export function isOfSame(one: Contender, other: Contender): boolean {
  return one.acquisition !== undefined && one.acquisition === other.acquisition;
}
