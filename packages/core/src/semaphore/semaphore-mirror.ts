import { type Coordinator, type KeySpan, prefixSpan, type WatchEvent } from '../coordinator/coordinator.ts';
import { Following, type Subject } from '../lock/following.ts';
import { MOST_PERMITS, readLimit, type SemaphoreKeys } from '../lock/key-layout.ts';
import type { AbortSignalLike } from '../signals.ts';
import { readSemaphore } from './read-semaphore.ts';
import { SemaphorePicture } from './semaphore-picture.ts';

/** What somebody in line is told: the slot to take, or why he can have none. */
export type Told =
  | { readonly slot: number; readonly stored: string | undefined }
  | { readonly otherLimit: string }
  | 'key-deleted'
  | 'foreign-write';

/** Somebody of ours in line for a permit. */
export class PermitSeat {
  readonly key: string;
  readonly token: bigint;
  readonly permits: number;
  /** The slot that he was told to take, while he tries. */
  slot: number | undefined;
  /** How much of the mirror he was told by: if that was in vain, more has to come first. */
  seen = -1;
  readonly #mirror: SemaphoreMirror;
  readonly #signal: AbortSignalLike;
  readonly #onWait: () => void;
  #settle: ((told: Told) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;

  /** @param onWait - called when all that is missing is that somebody else leaves. */
  constructor(
    { key, token, permits }: Pick<PermitSeat, 'key' | 'token' | 'permits'>,
    mirror: SemaphoreMirror,
    signal: AbortSignalLike,
    onWait: () => void,
  ) {
    this.key = key;
    this.token = token;
    this.permits = permits;
    this.#mirror = mirror;
    this.#signal = signal;
    this.#onWait = onWait;
    signal.addEventListener('abort', this.#onAbort, { once: true });
    mirror.join(this);
  }

  /** Waits until there is something to tell. Rejects with the signal's reason, or where the semaphore cannot be read. */
  next(): Promise<Told> {
    return new Promise((resolve, reject) => {
      if (this.#signal.aborted) return reject(this.#signal.reason);
      this.#settle = resolve;
      this.#reject = reject;
      this.slot = undefined;
      this.#mirror.ask(this);
    });
  }

  get isAsking(): boolean {
    return this.#settle !== undefined;
  }

  tell(told: Told): void {
    const settle = this.#settle;
    this.#settle = undefined;
    if (typeof told === 'object' && 'slot' in told) this.slot = told.slot;
    settle?.(told);
  }

  fail(error: unknown): void {
    this.#settle = undefined;
    this.#reject?.(error);
  }

  waits(): void {
    this.#onWait();
  }

  /** He has what he came for, or wants it no more. */
  leave(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#mirror.leave(this);
  }

  readonly #onAbort = (): void => this.fail(this.#signal.reason);
}

/**
 * One live picture of a semaphore for all of a keeper who are in line for it. Who is among the first, as many as there are
 * permits, is told which free slot to take, each another one. Whether he gets it etcd decides: the picture is old.
 *
 * Nobody is told anything before the picture has his own key, nor in the middle of a revision.
 */
export class SemaphoreMirror implements Subject {
  readonly span: KeySpan;
  readonly #coordinator: Coordinator;
  readonly #keys: SemaphoreKeys;
  readonly #onOver: () => void;
  readonly #following: Following;
  readonly #seats = new Map<string, PermitSeat>();
  /** Those of them who were told to take a slot. */
  readonly #trying = new Set<PermitSeat>();
  #picture: SemaphorePicture | undefined;
  /** Rises with everything that the picture comes to show. */
  #version = 0;
  /** Why it cannot go on; told to those who come back from a try as well. */
  #failure: unknown;

  /** @param onOver - called once: nobody is in line any more, or it cannot go on. */
  constructor(coordinator: Coordinator, keys: SemaphoreKeys, onOver: () => void) {
    this.#coordinator = coordinator;
    this.#keys = keys;
    this.#onOver = onOver;
    this.span = prefixSpan(keys.root);
    this.#following = new Following(coordinator, this);
  }

  /** Where all were told a slot, no watch is needed. */
  get isAwaited(): boolean {
    return this.#trying.size < this.#seats.size;
  }

  join(seat: PermitSeat): void {
    this.#seats.set(seat.key, seat);
  }

  ask(seat: PermitSeat): void {
    this.#trying.delete(seat);
    if (this.#following.isStopped) seat.fail(this.#failure);
    else if (this.#following.start()) this.#judge([seat]);
  }

  /** Without anybody it ends, and must not be joined any more. */
  leave(seat: PermitSeat): void {
    if (this.#seats.get(seat.key) !== seat) return;
    this.#seats.delete(seat.key);
    const wasTrying = this.#trying.delete(seat);
    if (this.#seats.size === 0) this.#end();
    else if (wasTrying) this.#goOn();
  }

  async read(signal: AbortSignalLike): Promise<bigint> {
    this.#picture = undefined;
    const seen = await readSemaphore(this.#coordinator, this.#keys, signal);
    this.#picture = new SemaphorePicture(this.#keys, seen);
    return seen.revision;
  }

  onRead(): void {
    this.#version += 1;
    this.#judge(this.#seats.values());
  }

  onEvents(events: readonly WatchEvent[]): void {
    const keys = events.map((event) => (event.type === 'put' ? event.kv.key : event.key));
    this.#version += 1;
    this.#picture?.apply(events);
    if (keys.includes(this.#keys.limit)) this.#judge(this.#seats.values());
    else this.#judge(keys.flatMap((key) => this.#seats.get(key) ?? []));
  }

  /** What one of ours aimed at is free for the others, or taken as the events will say. */
  #goOn(): void {
    this.#version += 1;
    this.#judge([]);
  }

  onFailure(error: unknown): void {
    this.#failure = error;
    for (const seat of this.#seats.values()) seat.fail(error);
    this.#end();
  }

  /** Tells those in front, and the given ones, what there is to tell. */
  #judge(seats: Iterable<PermitSeat>): void {
    const picture = this.#picture;
    if (picture === undefined) return;
    if (this.#following.isDoubtful) return void this.#following.readAgain();
    const those = [...seats];
    for (const seat of those) {
      const shown = picture.show(seat.key, seat.token);
      const { limit } = picture;
      if (!seat.isAsking || shown === undefined) continue;
      if (shown !== 'waiting') seat.tell(shown);
      else if (limit !== undefined && limit !== String(seat.permits)) seat.tell({ otherLimit: limit });
    }
    this.#admit(picture);
    for (const seat of those)
      if (seat.isAsking && picture.show(seat.key, seat.token) === 'waiting') seat.waits();
  }

  /**
   * Those in front who have no slot yet take one each, the first of them the lowest that is free: so whoever comes at the
   * same time from another process aims at another one. If all went for the same, a thousand would need half a million
   * tries.
   */
  #admit(picture: SemaphorePicture): void {
    const stored = picture.limit;
    const aimedAt = new Set<number>();
    for (const { slot } of this.#trying) if (slot !== undefined && !picture.isTaken(slot)) aimedAt.add(slot);
    let before = -1;
    /** Of those before, ours who are about to take a slot. */
    let trying = 0;
    for (const key of picture.first(readLimit(stored ?? '') ?? MOST_PERMITS)) {
      before += 1;
      const seat = this.#seats.get(key);
      if (seat === undefined) continue;
      if (seat.slot !== undefined && aimedAt.has(seat.slot)) trying += 1;
      if (!this.#isNext(seat, picture, before)) continue;
      const free = picture.freeSlots(seat.permits, aimedAt);
      const slot = free[Math.max(0, before - picture.taken - trying) % free.length];
      if (slot === undefined) continue;
      aimedAt.add(slot);
      trying += 1;
      seat.seen = this.#version;
      this.#trying.add(seat);
      seat.tell({ slot, stored });
    }
  }

  #isNext(seat: PermitSeat, picture: SemaphorePicture, before: number): boolean {
    if (!seat.isAsking || seat.seen === this.#version || before >= seat.permits) return false;
    // The first grant of all writes the limit: the others of ours come after it.
    if (picture.limit === undefined && this.#trying.size > 0) return false;
    return picture.show(seat.key, seat.token) === 'waiting';
  }

  #end(): void {
    if (this.#following.isStopped) return;
    this.#following.stop();
    this.#picture = undefined;
    this.#onOver();
  }
}
