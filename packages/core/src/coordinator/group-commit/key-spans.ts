import type { KeySpan } from '../coordinator.ts';

/** As a `rangeEnd`: all keys that follow. */
const END_OF_KEYS = '\0';

/** Where a span ends: `undefined` is the end of all keys; a span that ends where it begins is that key alone. */
function endOf({ key, rangeEnd }: KeySpan): string | undefined {
  if (rangeEnd === undefined || rangeEnd === '') return key;
  return rangeEnd === END_OF_KEYS ? undefined : rangeEnd;
}

/**
 * A set of keys and key ranges. Kept as a sorted list of spans that do not overlap, so that a look costs the
 * logarithm of its length.
 *
 * The order is that of JavaScript's strings. It agrees with etcd's as long as the ends of ranges are ASCII: see
 * `footprintOf`.
 */
export class KeySpans {
  readonly #from: string[] = [];
  readonly #to: (string | undefined)[] = [];

  overlaps(span: KeySpan): boolean {
    const { key } = span;
    const next = this.#firstAfter(key);
    if (this.#includes(next - 1, key)) return true;
    const follower = this.#from[next];
    if (follower === undefined) return false;
    const end = endOf(span);
    return end === undefined || follower < end;
  }

  add(span: KeySpan): void {
    let { key: from } = span;
    let to = endOf(span);
    let first = this.#firstAfter(from);
    let last = first;
    while (last < this.#from.length && (to === undefined || (this.#from[last] as string) < to)) {
      to = later(to, this.#to[last]);
      last += 1;
    }
    if (this.#includes(first - 1, from)) {
      first -= 1;
      from = this.#from[first] as string;
      to = later(to, this.#to[first]);
    }
    if (last - first === 1) {
      this.#from[first] = from;
      this.#to[first] = to;
      return;
    }
    this.#from.splice(first, last - first, from);
    this.#to.splice(first, last - first, to);
  }

  /** The index of the first span that begins after `key`. */
  #firstAfter(key: string): number {
    let low = 0;
    let high = this.#from.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#from[middle] as string) > key) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Whether the span at `index`, which begins at `key` or before, includes it. */
  #includes(index: number, key: string): boolean {
    if (index < 0) return false;
    const to = this.#to[index];
    return this.#from[index] === key || to === undefined || key < to;
  }
}

function later(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || other === undefined) return undefined;
  return one > other ? one : other;
}
