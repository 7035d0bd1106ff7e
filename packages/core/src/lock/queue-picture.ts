import type { KeyValue, WatchEvent } from '../coordinator/coordinator.ts';
import { isDowngraded } from './acquisition.ts';

/** One key of a queue, and its neighbours in the order in which they came. */
interface Entry {
  readonly key: string;
  readonly createRevision: bigint;
  modRevision: bigint;
  /** Whether nobody behind it may hold beside it. */
  isExclusive: boolean;
  before: Entry | undefined;
  behind: Entry | undefined;
}

/** What a picture shows of a key that was put at one revision, once it shows anything of that. */
export type Shown = 'in-front' | 'waiting' | 'key-deleted' | 'foreign-write';

/**
 * A whole queue as it was at one revision, kept by the events that follow. Those in front may hold: the first, and where
 * that is a reader, all readers up to the next writer. Every step costs the same however long the queue is.
 */
export class QueuePicture {
  readonly #writers: string | undefined;
  readonly #entries = new Map<string, Entry>();
  #first: Entry | undefined;
  #last: Entry | undefined;
  /** The last of those in front. */
  #front: Entry | undefined;
  #revision: bigint;

  /**
   * @param writers - below which the writers' keys lie; `undefined`: there are no readers.
   * @param kvs - the whole queue at `revision`, first come first.
   */
  constructor(writers: string | undefined, kvs: readonly KeyValue[], revision: bigint) {
    this.#writers = writers;
    for (const kv of kvs) this.#put(kv);
    this.#revision = revision;
    this.advance();
  }

  get length(): number {
    return this.#entries.size;
  }

  /** @param events - all of each of their revisions: in between, the queue was never as they leave it. */
  apply(events: readonly WatchEvent[]): void {
    for (const event of events) {
      if (event.type === 'put') this.#put(event.kv);
      else this.#remove(event.key);
      this.#revision = event.type === 'put' ? event.kv.modRevision : event.modRevision;
    }
  }

  /** The keys that have come to the front since the last call. */
  advance(): readonly string[] {
    const keys: string[] = [];
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#front = next;
      keys.push(next.key);
    }
    return keys;
  }

  /**
   * The key right behind the first, where that was put at `createRevision` and nobody else holds beside it: it is the
   * first as soon as that one is gone, at whatever later revision, unless it is gone by then itself.
   */
  behindFirst(key: string, createRevision: bigint): string | undefined {
    const first = this.#first;
    const isFirst = first?.key === key && first.createRevision === createRevision;
    return isFirst && this.#front === first && first.isExclusive ? first.behind?.key : undefined;
  }

  /**
   * How somebody stands whose key was put at `token` and whom nobody rewrites while he waits; `undefined`: that is still
   * to come, whatever stands at the key now.
   */
  show(key: string, token: bigint): Shown | undefined {
    const entry = this.#entries.get(key);
    if (entry?.createRevision !== token) return this.#revision < token ? undefined : 'key-deleted';
    if (entry.modRevision !== token) return 'foreign-write';
    return this.#isInFront(entry) ? 'in-front' : 'waiting';
  }

  #next(): Entry | undefined {
    const front = this.#front;
    if (front === undefined) return this.#first;
    const next = front.behind;
    return front.isExclusive || next?.isExclusive ? undefined : next;
  }

  #isInFront(entry: Entry): boolean {
    return this.#front !== undefined && !isBehind(entry, this.#front);
  }

  #put(kv: KeyValue): void {
    const { key, createRevision } = kv;
    const isExclusive = this.#writers === undefined || (key.startsWith(this.#writers) && !isDowngraded(kv));
    // One bigint for both, where they are the same.
    const modRevision = kv.modRevision === createRevision ? createRevision : kv.modRevision;
    const known = this.#entries.get(key);
    if (known?.createRevision === createRevision) {
      known.modRevision = modRevision;
      this.#become(known, isExclusive);
      return;
    }
    if (known !== undefined) this.#remove(key);
    const entry = { key, createRevision, modRevision, isExclusive, before: undefined, behind: undefined };
    this.#entries.set(key, entry);
    this.#insert(entry);
  }

  /** A writer has become a reader; or the other way round, by a foreign hand: then nobody new comes in behind it. */
  #become(entry: Entry, isExclusive: boolean): void {
    entry.isExclusive = isExclusive;
    if (isExclusive && this.#isInFront(entry)) this.#front = entry.before ?? entry;
  }

  /** At the end, or in the order of the keys among those that came in one revision. */
  #insert(entry: Entry): void {
    let before = this.#last;
    while (before !== undefined && isBehind(before, entry)) before = before.before;
    const behind = before === undefined ? this.#first : before.behind;
    entry.before = before;
    entry.behind = behind;
    if (before === undefined) this.#first = entry;
    else before.behind = entry;
    if (behind === undefined) this.#last = entry;
    else behind.before = entry;
  }

  #remove(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    const { before, behind } = entry;
    if (before === undefined) this.#first = behind;
    else before.behind = behind;
    if (behind === undefined) this.#last = before;
    else behind.before = before;
    if (this.#front === entry) this.#front = before;
  }
}

function isBehind(entry: Entry, other: Entry): boolean {
  if (entry.createRevision !== other.createRevision) return entry.createRevision > other.createRevision;
  return entry.key > other.key;
}
