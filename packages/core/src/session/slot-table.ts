/**
 * Which of a session's keys in each queue are in use. A session that contends with itself in one queue
 * needs a key per contender; the smallest free slot is reused, because every new key leaves a tombstone
 * that reads of a busy queue must step over until etcd compacts.
 */
export class SlotTable {
  readonly #taken = new Map<string, Set<number>>();

  take(queue: string): number {
    const taken = this.#taken.get(queue) ?? new Set();
    this.#taken.set(queue, taken);
    let slot = 0;
    while (taken.has(slot)) slot += 1;
    taken.add(slot);
    return slot;
  }

  /** How many are in use. */
  count(queue: string): number {
    return this.#taken.get(queue)?.size ?? 0;
  }

  free(queue: string, slot: number): void {
    const taken = this.#taken.get(queue);
    taken?.delete(slot);
    if (taken?.size === 0) this.#taken.delete(queue);
  }
}
