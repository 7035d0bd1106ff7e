import type { KeySpan } from '../coordinator.ts';

/** As a `rangeEnd`: all keys that follow. */
const END_OF_KEYS = '\0';

/** Where a span ends: `undefined` is the end of all keys; a span that ends where it begins is that key alone. */
function endOf({ key, rangeEnd }: KeySpan): string | undefined {
  if (rangeEnd === undefined || rangeEnd === '') return key;
  return rangeEnd === END_OF_KEYS ? undefined : rangeEnd;
}

/**
 * A set of keys and key ranges. Single keys are mostly looked up by themselves: they are sorted only once somebody asks
 * for a range. Ranges are kept as a sorted list of spans that do not overlap. So a look costs the logarithm of a length
 * at most.
 *
 * The order is that of JavaScript's strings. It agrees with etcd's as long as the ends of ranges are ASCII: see
 * `footprintOf`.
 */
export class KeySpans {
  readonly #keys = new Set<string>();
  #sorted: string[] | undefined;
  readonly #from: string[] = [];
  readonly #to: (string | undefined)[] = [];

  overlaps(span: KeySpan): boolean {
    const { key } = span;
    const end = endOf(span);
    if (end === key) return this.#keys.has(key) || this.#isInRange(key);
    if (this.#isInRange(key) || isBefore(this.#from[firstFrom(this.#from, key)], end)) return true;
    if (this.#keys.size === 0) return false;
    this.#sorted ??= [...this.#keys].sort(byOrder);
    return isBefore(this.#sorted[firstFrom(this.#sorted, key)], end);
  }

  add(span: KeySpan): void {
    const end = endOf(span);
    if (end !== span.key) this.#addRange(span.key, end);
    else if (!this.#keys.has(span.key)) this.#addKey(span.key);
  }

  #addKey(key: string): void {
    this.#keys.add(key);
    this.#sorted?.splice(firstFrom(this.#sorted, key), 0, key);
  }

  #addRange(key: string, end: string | undefined): void {
    let from = key;
    let to = end;
    let first = firstFrom(this.#from, from);
    let last = first;
    while (isBefore(this.#from[last], to)) {
      to = later(to, this.#to[last]);
      last += 1;
    }
    if (this.#includes(first - 1, from)) {
      first -= 1;
      from = this.#from[first] as string;
      to = later(to, this.#to[first]);
    }
    this.#from.splice(first, last - first, from);
    this.#to.splice(first, last - first, to);
  }

  #isInRange(key: string): boolean {
    if (this.#from.length === 0) return false;
    const next = firstFrom(this.#from, key);
    return this.#from[next] === key || this.#includes(next - 1, key);
  }

  /** Whether the range at `index`, which begins before `key`, includes it. */
  #includes(index: number, key: string): boolean {
    if (index < 0) return false;
    const to = this.#to[index];
    return to === undefined || key < to;
  }
}

/** The index of the first of a sorted list that is not before `key`. */
function firstFrom(sorted: readonly string[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether there is such a key, and it lies before `end`. */
function isBefore(key: string | undefined, end: string | undefined): boolean {
  return key !== undefined && (end === undefined || key < end);
}

const byOrder = (one: string, other: string): number => (one < other ? -1 : 1);

function later(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || other === undefined) return undefined;
  return one > other ? one : other;
}
