import type { Coordinator, KeySpan, WatchEvent } from '../coordinator/coordinator.ts';
import type { Session } from '../session/session.ts';
import type { AbortSignalLike } from '../signals.ts';
import type { QueuePlace } from './acquisition.ts';
import { untilReached } from './back-off.ts';
import { Following, type Subject } from './following.ts';
import type { Queue } from './key-layout.ts';
import { QueuePicture, type Shown } from './queue-picture.ts';
import { spanOf } from './queue-view.ts';

/**
 * A mirror is told of everybody who comes and goes, and each of us is served once in a length of the queue. Where there
 * are more than this many contenders for each of ours, two watches and a read a wait cost less.
 */
export const MOST_RIVALS_FOR_EACH = 32;

/** How a wait ends; `too-long`: this queue is better watched from one place in it. */
export type Verdict = Exclude<Shown, 'waiting'> | 'too-long';

/** Somebody of ours who waits. There may be tens of thousands. */
export class Seat {
  readonly key: string;
  readonly token: bigint;
  readonly #folder: string;
  readonly #session: Session;
  readonly #signal: AbortSignalLike;
  readonly #mirror: QueueMirror;
  #resolve!: (verdict: Verdict | Promise<never>) => void;

  /** @param token - the revision at which its key was put. */
  constructor(
    { key, queue }: QueuePlace,
    session: Session,
    token: bigint,
    mirror: QueueMirror,
    signal: AbortSignalLike,
  ) {
    this.key = key;
    this.token = token;
    this.#folder = queue.keys;
    this.#session = session;
    this.#mirror = mirror;
    this.#signal = signal;
  }

  /** Waits for the verdict; rejects with the signal's reason. To be called once. */
  wait(): Promise<Verdict> {
    const verdict = new Promise<Verdict>((resolve) => {
      this.#resolve = resolve;
    });
    this.#signal.addEventListener('abort', this, { once: true });
    this.#mirror.join(this);
    return verdict;
  }

  /** How many of its session contend here, those included whose place is not known yet. */
  get peers(): number {
    return this.#session.slots.count(this.#folder);
  }

  tell(verdict: Verdict): void {
    this.#leave();
    this.#resolve(verdict);
  }

  fail(error: unknown): void {
    this.#leave();
    this.#resolve(Promise.reject(error));
  }

  /** The signal aborts. */
  handleEvent(): void {
    this.fail(this.#signal.reason);
  }

  #leave(): void {
    this.#signal.removeEventListener('abort', this);
    this.#mirror.leave(this);
  }
}

/**
 * One live picture of a queue for all who wait in it here: read once, then kept by one watch from the next revision on.
 * A hand-over costs no message of ours.
 *
 * Nobody is told anything before the picture has his own key, nor in the middle of a revision: two keys of one lease go
 * together, and whoever stood before us may only have given up. Where there is a doubt whether the events are all, or
 * are of the same history, the queue is read again before anybody is told.
 */
export class QueueMirror implements Subject {
  readonly #coordinator: Coordinator;
  readonly #queue: Queue;
  readonly #onOver: () => void;
  readonly #seats = new Map<string, Seat>();
  readonly #following: Following;
  #picture: QueuePicture | undefined;

  /** @param onOver - called once: nobody waits any more, or it cannot go on. */
  constructor(coordinator: Coordinator, queue: Queue, onOver: () => void) {
    this.#coordinator = coordinator;
    this.#queue = queue;
    this.#onOver = onOver;
    this.#following = new Following(coordinator, this);
  }

  get span(): KeySpan {
    return spanOf(this.#queue);
  }

  get isAwaited(): boolean {
    return this.#seats.size > 0;
  }

  join(seat: Seat): void {
    this.#seats.set(seat.key, seat);
    if (this.#following.start()) this.#judge([seat.key]);
  }

  /** Without anybody it ends, and must not be joined any more. */
  leave(seat: Seat): void {
    if (this.#seats.get(seat.key) !== seat) return;
    this.#seats.delete(seat.key);
    if (this.#seats.size === 0) this.#end();
  }

  /** Whoever of ours is the next when the first is gone, whose key was put at `createRevision`. */
  behindFirst(key: string, createRevision: bigint): Seat | undefined {
    const next = this.#following.isDoubtful ? undefined : this.#picture?.behindFirst(key, createRevision);
    const seat = next === undefined ? undefined : this.#seats.get(next);
    // The one in the picture may have given up, and one of ours who came later have its place, behind others.
    return seat !== undefined && this.#picture?.show(seat.key, seat.token) === 'waiting' ? seat : undefined;
  }

  async read(signal: AbortSignalLike): Promise<bigint> {
    this.#picture = undefined;
    const { kvs, count, revision } = await untilReached(this.#coordinator.clock, signal, () =>
      this.#coordinator.range(
        {
          ...spanOf(this.#queue),
          sort: { by: 'createRevision', order: 'ascend' },
          limit: this.#limit,
          // Whether a writer has become a reader, its value tells.
          keysOnly: this.#queue.writers === undefined,
        },
        { signal },
      ),
    );
    if (count > kvs.length) this.#tellAll('too-long');
    else this.#picture = new QueuePicture(this.#queue.writers, kvs, revision);
    return revision;
  }

  onRead(): void {
    this.#judge(this.#seats.keys());
  }

  onEvents(events: readonly WatchEvent[]): void {
    const picture = this.#picture;
    if (picture === undefined) return;
    picture.apply(events);
    const cameToFront = picture.advance();
    this.#judge(events.map((event) => (event.type === 'put' ? event.kv.key : event.key)));
    this.#judge(cameToFront);
    if (picture.length > this.#limit) this.#tellAll('too-long');
  }

  onFailure(error: unknown): void {
    for (const seat of this.#seats.values()) seat.fail(error);
    this.#end();
  }

  /** Tells those of ours among the keys how they stand, where that ends their wait. */
  #judge(keys: Iterable<string>): void {
    for (const key of keys) {
      const seat = this.#seats.get(key);
      const shown = seat && this.#picture?.show(key, seat.token);
      if (seat === undefined || shown === undefined || shown === 'waiting') continue;
      if (this.#following.isDoubtful) return void this.#following.readAgain();
      seat.tell(shown);
    }
  }

  #tellAll(verdict: Verdict): void {
    for (const seat of this.#seats.values()) seat.tell(verdict);
    this.#end();
  }

  get #limit(): number {
    const [seat] = this.#seats.values();
    return MOST_RIVALS_FOR_EACH * Math.max(this.#seats.size, seat?.peers ?? 0);
  }

  #end(): void {
    if (this.#following.isStopped) return;
    this.#following.stop();
    this.#picture = undefined;
    this.#onOver();
  }
}
