/** The slots of one queue, a bit each. */
class Slots {
  readonly #words: number[] = [];
  size = 0;

  take(): number {
    let at = 0;
    while (this.#words[at] === -1) at += 1;
    const word = this.#words[at] ?? 0;
    const lowestFree = ~word & (word + 1);
    this.#words[at] = word | lowestFree;
    this.size += 1;
    return at * 32 + 31 - Math.clz32(lowestFree);
  }

  free(slot: number): void {
    const at = slot >>> 5;
    const bit = 1 << (slot & 31);
    const word = this.#words[at] ?? 0;
    if ((word & bit) === 0) return;
    this.#words[at] = word & ~bit;
    this.size -= 1;
  }
}

/**
 * Which of a session's keys in each queue are in use. A session that contends with itself in one queue
 * needs a key per contender; the smallest free slot is reused, because every new key leaves a tombstone
 * that reads of a busy queue must step over until etcd compacts.
 */
export class SlotTable {
  /** Mostly a session contends once in a queue: then the first slot alone is in use, and that is all there is to keep. */
  readonly #taken = new Map<string, Slots | 'first'>();

  take(queue: string): number {
    const taken = this.#taken.get(queue);
    if (taken === undefined) {
      this.#taken.set(queue, 'first');
      return 0;
    }
    if (taken !== 'first') return taken.take();
    const slots = new Slots();
    this.#taken.set(queue, slots);
    slots.take();
    return slots.take();
  }

  /** How many are in use. */
  count(queue: string): number {
    const taken = this.#taken.get(queue);
    return taken === 'first' ? 1 : (taken?.size ?? 0);
  }

  free(queue: string, slot: number): void {
    const taken = this.#taken.get(queue);
    if (taken === undefined) return;
    if (taken === 'first') {
      if (slot === 0) this.#taken.delete(queue);
      return;
    }
    taken.free(slot);
    if (taken.size === 0) this.#taken.delete(queue);
  }
}
