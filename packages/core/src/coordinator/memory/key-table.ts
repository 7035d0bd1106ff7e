import type { KeyValue } from '../coordinator.ts';
import type { ByteKey, ByteSpan } from './byte-key.ts';

/** The live keys, in byte order; looking at a span costs its own size, not the table's. */
export class KeyTable {
  readonly #order: ByteKey[] = [];
  readonly #byKey = new Map<ByteKey, KeyValue>();

  get(id: ByteKey): KeyValue | undefined {
    return this.#byKey.get(id);
  }

  set(id: ByteKey, kv: KeyValue): void {
    if (!this.#byKey.has(id)) this.#order.splice(this.#indexOf(id), 0, id);
    this.#byKey.set(id, kv);
  }

  delete(id: ByteKey): void {
    if (this.#byKey.delete(id)) this.#order.splice(this.#indexOf(id), 1);
  }

  count(span: ByteSpan): number {
    return Math.max(0, this.#endOf(span) - this.#indexOf(span.from));
  }

  /** Must be read to its end, or left, before the table changes. */
  *scan(span: ByteSpan): Generator<readonly [ByteKey, KeyValue], void> {
    const end = this.#endOf(span);
    for (let index = this.#indexOf(span.from); index < end; index++) {
      const id = this.#order[index];
      const kv = id === undefined ? undefined : this.#byKey.get(id);
      if (id === undefined || kv === undefined)
        throw new Error('memory store: the table changed under a scan');
      yield [id, kv];
    }
  }

  #endOf(span: ByteSpan): number {
    return span.to === undefined ? this.#order.length : this.#indexOf(span.to);
  }

  /** The place of `id`, or of the first key behind it. */
  #indexOf(id: ByteKey): number {
    let low = 0;
    let high = this.#order.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#order[middle] as ByteKey) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
