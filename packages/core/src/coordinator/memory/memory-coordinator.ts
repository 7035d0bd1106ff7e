import type { Clock } from '../../clock.ts';
import { LockkeeperError } from '../../errors.ts';
import type {
  CallOptions,
  Coordinator,
  EndpointHealth,
  GrantReply,
  GrantRequest,
  LeaseTime,
  RangeReply,
  RangeRequest,
  Txn,
  TxnReply,
  Watch,
  WatchEvent,
  WatchHandler,
  WatchRequest,
} from '../coordinator.ts';
import { type MemoryStore, type MemoryStoreOptions, memoryStore } from './memory-store.ts';

/** One client of a memory store. */
export interface MemoryCoordinator extends Coordinator {
  /** Connect others to it with `memoryCoordinator({ store })`; compact it with `store.compact(revision)`. */
  readonly store: MemoryStore;
}

/**
 * A coordinator in process, with etcd's semantics, for tests, simulation and local work: everything a
 * keeper does on etcd it does here, on a virtual clock or the real one. It is no coordination between
 * processes.
 *
 * By default it has a store of its own. Clients that shall see each other share one:
 * `memoryCoordinator({ store: first.store })`. Closing a coordinator leaves the store, and the leases that
 * it granted, as they are.
 *
 * It answers in microtasks, on the real clock too: a loop that waits for nothing else, such as one that acquires and
 * releases until a timer says stop, lets no timer fire. Await something of your own in it. Nothing is ever compacted by
 * itself, so the store grows with what was written.
 */
export function memoryCoordinator(
  options: MemoryStoreOptions | { readonly store: MemoryStore } = {},
): MemoryCoordinator {
  return new Connection('store' in options ? options.store : memoryStore(options));
}

/** A request is applied within its call; the reply, and the events, come in a later turn. */
class Connection implements MemoryCoordinator {
  readonly store: MemoryStore;
  readonly #watches = new Set<EventQueue>();
  #closing: Promise<void> | undefined;

  constructor(store: MemoryStore) {
    this.store = store;
  }

  get clock(): Clock {
    return this.store.clock;
  }

  describe(options?: CallOptions): Promise<string> {
    return this.#call(options, () => 'memory');
  }

  endpoints(): readonly EndpointHealth[] {
    return [{ name: 'memory', connected: this.#closing === undefined, current: true }];
  }

  grant(request: GrantRequest, options?: CallOptions): Promise<GrantReply> {
    return this.#call(options, () => this.store.grant(request));
  }

  renew(lease: bigint, options?: CallOptions): Promise<{ readonly ttlMs: number }> {
    return this.#call(options, () => this.store.renew(lease));
  }

  timeToLive(lease: bigint, options?: CallOptions): Promise<LeaseTime | undefined> {
    return this.#call(options, () => this.store.timeToLive(lease));
  }

  revoke(lease: bigint, options?: CallOptions): Promise<void> {
    return this.#call(options, () => this.store.revoke(lease));
  }

  txn(txn: Txn, options?: CallOptions): Promise<TxnReply> {
    return this.#call(options, () => this.store.txn(txn));
  }

  range(range: RangeRequest, options?: CallOptions): Promise<RangeReply> {
    return this.#call(options, () => this.store.range(range));
  }

  watch(request: WatchRequest, handler: WatchHandler): Watch {
    const queue = new EventQueue(handler, () => this.#watches.delete(queue));
    if (this.#closing === undefined) queue.feed = this.store.watch(request, queue);
    else queue.onEnd(closedError('rejected'));
    this.#watches.add(queue);
    return queue;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    for (const queue of this.#watches) queue.onEnd(closedError('rejected'));
    // Behind the turns in which pending calls and watches are told.
    await Promise.resolve();
  }

  #call<T>(options: CallOptions | undefined, apply: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closing !== undefined) return reject(closedError('rejected'));
      const signal = options?.signal;
      if (signal?.aborted) return reject(signal.reason);
      const reply = apply();
      queueMicrotask(() => {
        if (this.#closing !== undefined) reject(closedError('unknown'));
        else if (signal?.aborted) reject(signal.reason);
        else resolve(reply);
      });
    });
  }
}

/**
 * Between the store and a watch's handler: what the store tells in the middle of a change is passed on in
 * a later turn. A handler that throws is an uncaught exception, and is called again for what comes next.
 */
class EventQueue implements Watch, WatchHandler {
  /** Ends what the store tells. */
  feed: () => void = () => {};
  readonly #handler: WatchHandler;
  readonly #onClosed: () => void;
  #events: WatchEvent[] = [];
  #end: Error | undefined;
  #scheduled = false;
  #closed = false;

  constructor(handler: WatchHandler, onClosed: () => void) {
    this.#handler = handler;
    this.#onClosed = onClosed;
  }

  onEvents(events: readonly WatchEvent[]): void {
    for (const event of events) this.#events.push(event);
    this.#schedule();
  }

  /** What has not been passed on by now never is: `onEnd` says that events may have been missed. */
  onEnd(error: Error): void {
    this.#end ??= error;
    this.feed();
    this.#schedule();
  }

  close(): void {
    this.#closed = true;
    this.feed();
    this.#onClosed();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#deliver();
    });
  }

  #deliver(): void {
    if (this.#closed) return;
    if (this.#end !== undefined) {
      this.close();
      this.#handler.onEnd(this.#end);
      return;
    }
    const events = this.#events;
    this.#events = [];
    this.#handler.onEvents(events);
  }
}

function closedError(outcome: 'rejected' | 'unknown'): LockkeeperError {
  return new LockkeeperError('closed', 'memory coordinator: closed', { outcome });
}
