import { type KeySpan, prefixSpan } from '../coordinator/coordinator.ts';
import { invalidOption } from '../validation.ts';

const MAX_BYTES = 1_024;
const UNRESERVED = /^[\w.~-]+$/;

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
  if (UNRESERVED.test(value)) return value;
  try {
    return encodeURIComponent(value).replace(
      /[!'()*]/g,
      (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  } catch {
    throw invalidOption(field, value, 'expected well-formed Unicode (it has a lone surrogate)');
  }
}

/**
 * What has a queue under a name: a lock (sets of locks stand in those too), a read/write lock, a semaphore, an
 * election.
 */
export type LockKind = 'lock' | 'readWrite' | 'semaphore' | 'election';

/** One queue that a contender stands in: where its key goes, and for whose leaving it waits. */
export interface Queue {
  /** Own keys lie below this. */
  readonly keys: string;
  /** Whoever has a key below this that was created before ours has to leave first. Our own may lie there too. */
  readonly rivals: string;
  /**
   * Given where the values of own keys are the user's: below this the details of who stands behind each of them are
   * kept.
   */
  readonly details?: string | undefined;
  /** Whether a holder may rewrite the value of its key. Then the key is told by its create revision. */
  readonly isRewritable?: boolean | undefined;
  /** Whether those of this queue hold together, by shared tokens. */
  readonly isOfReaders?: boolean | undefined;
  /** Whether a rival that holds, and has become a reader, need not leave first. */
  readonly sharesWithDowngraded?: boolean | undefined;
  /** Of readers and writers: where the writers' keys lie. Who stands elsewhere is a reader, and readers hold together. */
  readonly writers?: string | undefined;
  /**
   * Queues of one family wait for each other: nobody may wait in one while holding in another. Below it lie the keys
   * of all of them. None: whoever holds here may wait here.
   */
  readonly family?: string | undefined;
}

export interface SemaphoreKeys {
  /** Below which all of it lies. */
  readonly root: string;
  readonly queue: Queue;
  readonly slots: Required<KeySpan>;
  readonly limit: string;
}

/** As many as one semaphore may have. */
export const MOST_PERMITS = 1_000;

/** The number of permits that is stored; `undefined`: a text that no keeper would write. */
export function readLimit(stored: string): number | undefined {
  const permits = Number(stored);
  const isOurs = Number.isInteger(permits) && permits >= 1 && permits <= MOST_PERMITS;
  return isOurs && String(permits) === stored ? permits : undefined;
}

/** The number of the slot whose key it is; `undefined`: it is none of a slot. */
export function slotOf({ slots }: SemaphoreKeys, key = ''): number | undefined {
  const slot = Number(key.slice(slots.key.length));
  return key === `${slots.key}${slot}` && slot >= 0 && slot < MOST_PERMITS ? slot : undefined;
}

/** Below which a contender's key lies, or that of a permit, and those of its rivals. */
export function folderOf(key: string): string {
  return key.slice(0, key.lastIndexOf('/') + 1);
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

  /** Below which the queues of each kind lie, a segment of the name before each. */
  get folders(): Readonly<Record<LockKind, string>> {
    const root = this.#root;
    return {
      lock: `${root}/lock/`,
      readWrite: `${root}/rw/`,
      semaphore: `${root}/semaphore/`,
      election: `${root}/election/`,
    };
  }

  /**
   * A lock: every key below is a holder or a waiter, and everybody waits for everybody before him.
   * @param field - what the caller calls the name.
   */
  lock(name: string, field = 'name'): Queue {
    const keys = `${this.#root}/lock/${keySegment(field, name)}/`;
    return { keys, rivals: keys, family: keys };
  }

  /**
   * A read/write lock: one queue in two folders, so that one range finds the last writer. A writer waits for
   * everybody before him, a reader for the last writer before him: nobody overtakes.
   */
  readWrite(name: string): { readonly read: Queue; readonly write: Queue } {
    const family = `${this.#root}/rw/${keySegment('name', name)}/`;
    const [readers, writers] = [`${family}r/`, `${family}w/`];
    return {
      read: {
        keys: readers,
        rivals: writers,
        isOfReaders: true,
        sharesWithDowngraded: true,
        writers,
        family,
      },
      write: { keys: writers, rivals: family, isRewritable: true, writers, family },
    };
  }

  /**
   * A semaphore: whoever is among the first of the queue, as many as `limit` holds, may take a free slot. It keeps
   * both keys until it gives the permit back.
   */
  semaphore(name: string): SemaphoreKeys {
    const root = `${this.#root}/semaphore/${keySegment('name', name)}/`;
    const keys = `${root}queue/`;
    return {
      root,
      queue: { keys, rivals: keys },
      slots: prefixSpan(`${root}slots/`),
      limit: `${root}limit`,
    };
  }

  /** An election, as Go's `concurrency.Election` and `etcdctl elect` lay it out, and who is behind each candidate. */
  election(name: string): Queue {
    const segment = keySegment('name', name);
    const keys = `${this.#root}/election/${segment}/`;
    return {
      keys,
      rivals: keys,
      family: keys,
      details: `${this.#root}/candidates/${segment}/`,
      isRewritable: true,
    };
  }

  /**
   * The key of one contender. Go's `concurrency.Mutex` and `etcdctl lock` use the lease alone, in hex, and
   * queue with ours; contenders of one session after the first add a slot.
   */
  contender(folder: string, leaseHex: string, slot: number): string {
    return slot === 0 ? folder + leaseHex : `${folder}${leaseHex}.${slot}`;
  }

  /** Of a queue's folder, or a slot: there from a holder's beginning until its release. See lock-delay. */
  mark(place: string): string {
    return `${this.#root}/delay/${encodeURIComponent(place.slice(this.#root.length + 1))}`;
  }

  /** Where others ask the holder of this acquisition to let go. */
  request(acquisition: string): string {
    return `${this.#root}/requests/${acquisition}`;
  }

  /** Present: no late copy of this acquisition's enqueue may take effect any more. */
  cancelled(acquisition: string): string {
    return `${this.#root}/cancelled/${acquisition}`;
  }
}
