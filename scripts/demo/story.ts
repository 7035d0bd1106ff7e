// What happens in one run, as facts with the moment at which each was observed.
import { FencingToken } from '@lockkeeper/fencing';

/** The two worker processes. */
export type WorkerName = 'A' | 'B';

export type Fact =
  /** With a guard the storage has promised by then to refuse every older token. */
  | { readonly who: WorkerName; readonly kind: 'acquired'; readonly token: string; readonly claimed: boolean }
  | { readonly who: WorkerName; readonly kind: 'read'; readonly balance: number }
  | { readonly who: WorkerName; readonly kind: 'checked'; readonly remainingMs: number }
  | { readonly who: WorkerName; readonly kind: 'stopped' | 'woken' }
  | { readonly who: WorkerName; readonly kind: 'sent'; readonly token: string; readonly balance: number }
  /** The hold's signal aborted. */
  | {
      readonly who: WorkerName;
      readonly kind: 'lost';
      readonly token: string;
      readonly reason: string;
      readonly message: string;
    }
  /** An end that no run of the demo should have. */
  | { readonly who: WorkerName; readonly kind: 'failed'; readonly code: string; readonly message: string }
  /** A contender's key was written, at the revision that is its token. */
  | {
      readonly who: 'coordinator';
      readonly kind: 'enqueued';
      readonly of: string;
      readonly revision: string;
      readonly behind: string | undefined;
    }
  | { readonly who: 'coordinator'; readonly kind: 'removed'; readonly of: string; readonly revision: string }
  /** The storage's answer, when the worker saw it. */
  | {
      readonly who: 'storage';
      readonly kind: 'applied';
      readonly of: WorkerName;
      readonly token: string;
      readonly entry: string;
      readonly amount: number;
      readonly balance: number;
    }
  | {
      readonly who: 'storage';
      readonly kind: 'refused';
      readonly of: WorkerName;
      readonly token: string;
      readonly inForce: string | undefined;
      readonly code: string;
      readonly message: string;
    }
  | { readonly who: 'network'; readonly kind: 'stalled' | 'held' | 'restored' };

/** The part of a token that orders it, which etcd calls the revision. */
export function revisionOf(token: string): string {
  return `${FencingToken.parse(token).revision}`;
}

/** A fact and when it was observed, in milliseconds since the run began. */
export type StoryEvent = Fact & { readonly atMs: number };

/** The facts of one run, in the order of their moments, whatever order they became known in. */
export class Story {
  readonly #startedAt: number;
  readonly #told: StoryEvent[] = [];
  readonly #untold: StoryEvent[] = [];

  /** `startedAt` and the moments below are wall time, milliseconds since the epoch. */
  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  record(fact: Fact, at: number): void {
    this.#untold.push({ ...fact, atMs: Math.max(0, at - this.#startedAt) });
  }

  get events(): readonly StoryEvent[] {
    const all = [...this.#told, ...this.#untold];
    return inOrder(all, all);
  }

  /** What was recorded since the last time somebody asked. */
  takeNews(): readonly StoryEvent[] {
    const news = inOrder(this.#untold, [...this.#told, ...this.#untold]);
    this.#told.push(...news);
    this.#untold.length = 0;
    return news;
  }
}

/** By their moments; of what happened at once, the first that became known comes first. */
function inOrder(events: readonly StoryEvent[], all: readonly StoryEvent[]): readonly StoryEvent[] {
  return events
    .map((event) => ({ ...event, atMs: momentOf(event, all) }))
    .toSorted((one, other) => one.atMs - other.atMs);
}

/**
 * The watch may report a key later than a worker told what followed from it: nobody acquires without a key, nor
 * while an older one is there.
 */
function momentOf(event: StoryEvent, all: readonly StoryEvent[]): number {
  if (event.kind !== 'enqueued' && event.kind !== 'removed') return event.atMs;
  const revision = BigInt(event.revision);
  const earliest = event.kind === 'enqueued' ? revision : revision + 1n;
  const later = all.filter((one) => one.kind === 'acquired' && BigInt(revisionOf(one.token)) >= earliest);
  const latest = Math.min(...later.map(({ atMs }) => atMs));
  // A microsecond before, where it would come after.
  return event.atMs > latest ? Math.max(0, latest - 0.001) : event.atMs;
}
