import { type KeySpan, prefixSpan } from '../coordinator/coordinator.ts';
import { invalidOption } from '../validation.ts';

const MAX_BYTES = 1_024;

/**
 * One segment of a key: RFC 3986's unreserved characters stand for themselves, all others are
 * percent-encoded, so that no name contains a separator and no two names share a key.
 * @throws LockkeeperError `invalid-option` for what is empty, too long, or not well-formed Unicode.
 */
export function keySegment(field: string, value: unknown): string {
  if (typeof value !== 'string' || value === '')
    throw invalidOption(field, value, 'expected a non-empty string');
  if (Buffer.byteLength(value) > MAX_BYTES) {
    throw invalidOption(
      field,
      value,
      `expected at most ${MAX_BYTES} bytes of UTF-8, got ${Buffer.byteLength(value)}`,
    );
  }
  try {
    return encodeURIComponent(value).replace(
      /[!'()*]/g,
      (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  } catch {
    throw invalidOption(field, value, 'expected well-formed Unicode (it has a lone surrogate)');
  }
}

/** Where everything of one namespace lives in etcd. */
export class KeyLayout {
  readonly #root: string;

  constructor(namespace: string) {
    this.#root = keySegment('namespace', namespace);
  }

  get lineage(): string {
    return `${this.#root}/lineage`;
  }

  /** The queue of a lock: every key below it is a holder or a waiter, in the order of create revisions. */
  queue(name: string): Required<KeySpan> {
    return prefixSpan(`${this.#root}/lock/${keySegment('name', name)}/`);
  }

  /**
   * The key of one contender. Go's `concurrency.Mutex` and `etcdctl lock` use the lease alone, in hex, and
   * queue with ours; contenders of one session after the first add a slot.
   */
  contender(queue: KeySpan, lease: bigint, slot: number): string {
    return `${queue.key}${lease.toString(16)}${slot === 0 ? '' : `.${slot}`}`;
  }

  /** Present: no late copy of this acquisition's enqueue may take effect any more. */
  cancelled(acquisition: string): string {
    return `${this.#root}/cancelled/${acquisition}`;
  }
}
