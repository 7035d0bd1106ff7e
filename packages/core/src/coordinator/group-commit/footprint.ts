import type { Compare, KeySpan, Operation, Txn } from '../coordinator.ts';
import { KeySpans } from './key-spans.ts';

/** What a transaction may touch, in whichever branch, and how much room it takes in a batch. */
export interface Footprint {
  /** What it compares and reads, and where it must stay apart from what others write. */
  readonly reads: readonly KeySpan[];
  /** What it puts and deletes. */
  readonly writes: readonly KeySpan[];
  /** The leases that it puts keys on. */
  readonly leases: readonly bigint[];
  /**
   * The first range that it reads. Those that read the same one, and write in it, can only follow each other: the
   * contenders for one lock.
   */
  readonly lane: string | undefined;
  /** How many operations it takes of etcd's limit: its longest list, and the longest of those nested in it. */
  readonly depth: number;
  /** An estimate, at least a third of the truth. */
  readonly bytes: number;
  /** Whether values are bytes, which their owner may change. */
  readonly hasBytes: boolean;
  /** Whether all of the above is certain. What is not is sent alone, and etcd judges it. */
  readonly isPlain: boolean;
}

/** Tags, lengths and numbers of one comparison or operation. */
const BYTES_BESIDES = 48;
const NOT_ASCII = /[^\0-\x7f]/;

const NONE: readonly bigint[] = [];

export function footprintOf(txn: Txn): Footprint {
  const survey = new Survey();
  survey.depth = survey.visit(txn);
  return survey;
}

class Survey implements Footprint {
  readonly reads: KeySpan[] = [];
  readonly writes: KeySpan[] = [];
  leases: readonly bigint[] = NONE;
  lane: string | undefined;
  depth = 0;
  bytes = 0;
  hasBytes = false;
  isPlain = true;

  /** Returns the depth. */
  visit({ compare, success, failure, apartIn }: Txn): number {
    for (const each of compare) this.#compare(each);
    for (const span of apartIn ?? []) this.#touch(span, this.reads);
    const deepest = Math.max(this.#operations(success), this.#operations(failure));
    return Math.max(compare.length, success.length, failure.length) + deepest;
  }

  #compare(compare: Compare): void {
    this.#touch(compare, this.reads);
    if (compare.target === 'value') this.#value(compare.to);
  }

  #operations(operations: readonly Operation[]): number {
    let deepest = 0;
    for (const operation of operations) {
      if (operation.op === 'txn') deepest = Math.max(deepest, this.visit(operation));
      else if (operation.op === 'range') this.#touch(operation, this.reads);
      else if (operation.op === 'delete') this.#touch(operation, this.writes);
      else if (operation.op === 'put') this.#put(operation);
      // From JavaScript anything may come: it is for the coordinator to refuse, for its sender alone.
      else this.isPlain = false;
    }
    return deepest;
  }

  #put(put: Extract<Operation, { op: 'put' }>): void {
    const { value, lease } = put;
    this.#touch(put, this.writes);
    this.#value(value);
    if (lease !== undefined && typeof lease !== 'bigint') this.isPlain = false;
    else if (lease && !this.leases.includes(lease)) this.leases = [...this.leases, lease];
  }

  #touch(span: KeySpan, list: KeySpan[]): void {
    const { key, rangeEnd } = span;
    list.push(span);
    if (typeof key !== 'string') this.isPlain = false;
    else this.bytes += key.length + BYTES_BESIDES;
    if (rangeEnd === undefined) return;
    if (list === this.reads) this.lane ??= key;
    // Only between ASCII ends is the order of JavaScript's strings the order of their bytes.
    if (typeof rangeEnd !== 'string' || NOT_ASCII.test(key) || NOT_ASCII.test(rangeEnd)) this.isPlain = false;
    else this.bytes += rangeEnd.length;
  }

  #value(value: string | Uint8Array): void {
    if (typeof value === 'string') this.bytes += value.length;
    else if (value instanceof Uint8Array) {
      this.bytes += value.length;
      this.hasBytes = true;
    } else this.isPlain = false;
  }
}

/** The same with values of its own. */
export function withOwnBytes({ compare, success, failure }: Txn): Txn {
  return {
    compare: compare.map((each) => (each.target === 'value' ? { ...each, to: ownValue(each.to) } : each)),
    success: success.map(withOwnValue),
    failure: failure.map(withOwnValue),
  };
}

function withOwnValue(operation: Operation): Operation {
  if (operation.op === 'put') return { ...operation, value: ownValue(operation.value) };
  return operation.op === 'txn' ? { op: 'txn', ...withOwnBytes(operation) } : operation;
}

function ownValue(value: string | Uint8Array): string | Uint8Array {
  return value instanceof Uint8Array ? Uint8Array.prototype.slice.call(value) : value;
}

/** What several transactions touch together. */
export class Ground {
  readonly #reads = new KeySpans();
  readonly #writes = new KeySpans();

  add({ reads, writes }: Footprint): void {
    for (const span of reads) this.#reads.add(span);
    for (const span of writes) this.#writes.add(span);
  }

  /**
   * Whether one of them writes what the other reads or writes. What both only read, such as the name of the history,
   * is no conflict.
   */
  conflictsWith({ reads, writes }: Footprint): boolean {
    return (
      writes.some((span) => this.#writes.overlaps(span) || this.#reads.overlaps(span)) ||
      reads.some((span) => this.#writes.overlaps(span))
    );
  }
}
