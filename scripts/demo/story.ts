// What happens in one run, as facts with the moment at which each was observed.

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

/** A fact and when it was observed, in milliseconds since the run began. */
export type StoryEvent = Fact & { readonly atMs: number };

/** The facts of one run, in the order of their moments, whatever order they became known in. */
export class Story {
  readonly #startedAt: number;
  readonly #events: StoryEvent[] = [];
  #told = 0;

  /** `startedAt` and the moments below are wall time, milliseconds since the epoch. */
  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  record(fact: Fact, at: number): void {
    const event = { ...fact, atMs: Math.max(0, at - this.#startedAt) };
    // What has been told stays where it is; everything else goes to its place in time.
    let place = this.#events.length;
    while (place > this.#told && (this.#events[place - 1]?.atMs ?? 0) > event.atMs) place -= 1;
    this.#events.splice(place, 0, event);
  }

  get events(): readonly StoryEvent[] {
    return this.#events.toSorted((one, other) => one.atMs - other.atMs);
  }

  /** What was recorded since the last time somebody asked. */
  takeNews(): readonly StoryEvent[] {
    const news = this.#events.slice(this.#told);
    this.#told = this.#events.length;
    return news;
  }
}
