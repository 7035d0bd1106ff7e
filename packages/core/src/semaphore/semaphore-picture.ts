import type { KeyValue, WatchEvent } from '../coordinator/coordinator.ts';
import { type SemaphoreKeys, slotOf } from '../lock/key-layout.ts';
import type { Shown } from '../lock/queue-picture.ts';
import type { SemaphoreRead } from './read-semaphore.ts';

/** A key of the queue. */
interface Entry {
  readonly createRevision: bigint;
  modRevision: bigint;
}

/** A whole semaphore as it was at one revision, kept by the events that follow: its queue, its slots, its limit. */
export class SemaphorePicture {
  /** The number of permits, as stored; `undefined` before the first grant. */
  limit: string | undefined;
  readonly #keys: SemaphoreKeys;
  /** In the order in which they came. */
  readonly #queue = new Map<string, Entry>();
  readonly #taken = new Set<number>();
  /** Taken by keys that are no slot's, which only another program can have put: they count all the same. */
  readonly #strange = new Set<string>();
  #revision: bigint;

  constructor(keys: SemaphoreKeys, { limit, queue, slots, revision }: SemaphoreRead) {
    this.#keys = keys;
    for (const kv of [...queue, ...slots]) this.#put(kv);
    if (limit !== undefined) this.#put(limit);
    this.#revision = revision;
  }

  /** @param events - all of each of their revisions: in between, the semaphore was never as they leave it. */
  apply(events: readonly WatchEvent[]): void {
    for (const event of events) {
      if (event.type === 'put') this.#put(event.kv);
      else this.#remove(event.key);
      this.#revision = event.type === 'put' ? event.kv.modRevision : event.modRevision;
    }
  }

  /** The keys of the first in line, at most so many. */
  *first(most: number): Generator<string> {
    let left = most;
    for (const key of this.#queue.keys()) {
      if (left === 0) return;
      left -= 1;
      yield key;
    }
  }

  /** How somebody in line stands whose key was put at `token`; `undefined`: that is still to come. */
  show(key: string, token: bigint): Exclude<Shown, 'in-front'> | undefined {
    const entry = this.#queue.get(key);
    if (entry?.createRevision !== token) return this.#revision < token ? undefined : 'key-deleted';
    return entry.modRevision === token ? 'waiting' : 'foreign-write';
  }

  get taken(): number {
    return this.#taken.size + this.#strange.size;
  }

  isTaken(slot: number): boolean {
    return this.#taken.has(slot);
  }

  /** The free slots, the lowest first, but for those that somebody of ours is about to take. */
  freeSlots(permits: number, aimedAt: ReadonlySet<number>): readonly number[] {
    const free: number[] = [];
    for (let slot = 0; slot < permits; slot += 1)
      if (!this.#taken.has(slot) && !aimedAt.has(slot)) free.push(slot);
    return free;
  }

  #put(kv: KeyValue): void {
    const { key, createRevision, modRevision } = kv;
    const { queue, slots, limit } = this.#keys;
    if (key === limit) this.limit = new TextDecoder().decode(kv.value);
    else if (key.startsWith(slots.key)) this.#take(key);
    else if (key.startsWith(queue.keys)) {
      const known = this.#queue.get(key);
      if (known?.createRevision === createRevision) known.modRevision = modRevision;
      else {
        // Whoever comes anew comes last.
        this.#queue.delete(key);
        this.#queue.set(key, { createRevision, modRevision });
      }
    }
  }

  #remove(key: string): void {
    if (key === this.#keys.limit) this.limit = undefined;
    const slot = slotOf(this.#keys, key);
    if (slot !== undefined) this.#taken.delete(slot);
    this.#strange.delete(key);
    this.#queue.delete(key);
  }

  #take(key: string): void {
    const slot = slotOf(this.#keys, key);
    if (slot === undefined) this.#strange.add(key);
    else this.#taken.add(slot);
  }
}
