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
  readonly #taken = new Map<string, Slots>();

  take(queue: string): number {
    let slots = this.#taken.get(queue);
    if (slots === undefined) {
      slots = new Slots();
      this.#taken.set(queue, slots);
    }
    return slots.take();
  }

  /** How many are in use. */
  count(queue: string): number {
    return this.#taken.get(queue)?.size ?? 0;
  }

  free(queue: string, slot: number): void {
    const slots = this.#taken.get(queue);
    slots?.free(slot);
    if (slots?.size === 0) this.#taken.delete(queue);
  }
}
