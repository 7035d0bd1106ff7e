import { LockkeeperError } from '../../errors.ts';
import type { KeyValue, WatchEvent, WatchHandler, WatchRequest } from '../coordinator.ts';
import { type ByteKey, type ByteSpan, spanIncludes, toByteSpan } from './byte-key.ts';

export interface Change {
  readonly id: ByteKey;
  readonly event: WatchEvent;
}

interface Entry {
  readonly revision: bigint;
  readonly changes: readonly Change[];
}

interface Subscription {
  readonly span: ByteSpan;
  readonly startRevision: bigint;
  readonly handler: WatchHandler;
}

/** What happened at each revision since the last compaction, and who is told of the next ones. */
export class History {
  readonly #retain: number;
  readonly #subscriptions = new Set<Subscription>();
  #entries: Entry[] = [];
  #compactedTo = 1n;

  /** @param retain - how many revisions to keep at least. */
  constructor(retain: number) {
    this.#retain = retain;
  }

  /** Tells every watch, within this call. */
  append(revision: bigint, changes: readonly Change[]): void {
    const entry = { revision, changes };
    this.#entries.push(entry);
    for (const subscription of this.#subscriptions) tell(subscription, [entry]);
    // A quarter more than promised, so that dropping the oldest is rare.
    if (this.#entries.length > this.#retain * 1.25) {
      const oldest = this.#entries.at(-this.#retain);
      if (oldest !== undefined) this.compact(oldest.revision);
    }
  }

  /** Tells the past, or that it is gone, within this call. Returns how to end the watch. */
  subscribe(request: WatchRequest, handler: WatchHandler): () => void {
    const { startRevision } = request;
    if (startRevision < this.#compactedTo) {
      handler.onEnd(
        new LockkeeperError(
          'compacted',
          `watch of ${JSON.stringify(request.key)} from revision ${startRevision}: compacted up to ${this.#compactedTo}`,
        ),
      );
      return () => {};
    }
    const subscription = { span: toByteSpan(request), startRevision, handler };
    tell(subscription, this.#entries.slice(this.#firstFrom(startRevision)));
    this.#subscriptions.add(subscription);
    return () => this.#subscriptions.delete(subscription);
  }

  /** Forgets what happened before `revision`; running watches are not disturbed. */
  compact(revision: bigint): void {
    if (revision < this.#compactedTo) return;
    this.#compactedTo = revision;
    this.#entries = this.#entries.slice(this.#firstFrom(revision));
  }

  #firstFrom(revision: bigint): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#entries[middle] as Entry).revision < revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function tell({ span, startRevision, handler }: Subscription, entries: readonly Entry[]): void {
  const events: WatchEvent[] = [];
  for (const { revision, changes } of entries) {
    if (revision < startRevision) continue;
    for (const { id, event } of changes) if (spanIncludes(span, id)) events.push(copyOfEvent(event));
  }
  if (events.length > 0) handler.onEvents(events);
}

function copyOfEvent(event: WatchEvent): WatchEvent {
  return event.type === 'put' ? { type: 'put', kv: copyOf(event.kv) } : { ...event };
}

/** What leaves the store is a copy: nobody can change the stored bytes. */
export function copyOf(kv: KeyValue, keysOnly = false): KeyValue {
  return { ...kv, value: keysOnly ? new Uint8Array() : new Uint8Array(kv.value) };
}
