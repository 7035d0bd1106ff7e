import type { Timer } from '../clock.ts';
import type { Coordinator, Watch, WatchEvent, WatchHandler } from '../coordinator/coordinator.ts';
import type { Logger } from '../options.ts';
import type { Acquisition, Place } from './acquisition.ts';
import { BackOff } from './back-off.ts';

/** Most holds are over before this; only what lasts longer is worth a watch. Well below a second. */
const SETTLE_MS = 250;

/** Whoever must know when a key of his is gone or overwritten. */
export interface Owner {
  /** @internal Called once for a key. */
  onSpoilt(cause: 'key-deleted' | 'foreign-write'): void;
}

/**
 * Notices within a second when somebody else deletes or overwrites the key of a hold. All watches share
 * the coordinator's one stream, start at the key's own revision, so that nothing in between is missed, and
 * are opened only for holds that last.
 */
export class OwnershipWatch {
  readonly coordinator: Coordinator;
  readonly logger: Logger;
  readonly #young = new Set<OwnedKey>();
  #timer: Timer | undefined;

  constructor(coordinator: Coordinator, logger: Logger) {
    this.coordinator = coordinator;
    this.logger = logger;
  }

  add(owned: OwnedKey): void {
    this.#young.add(owned);
    // The session keeps the process alive for a hold; this need not.
    this.#timer ??= this.coordinator.clock.setTimer(SETTLE_MS, () => this.#watchAll(), { ref: false });
  }

  /** Idempotent. */
  remove(owned: OwnedKey): void {
    if (!this.#young.delete(owned) || this.#young.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #watchAll(): void {
    this.#timer = undefined;
    for (const owned of this.#young) owned.watch();
    this.#young.clear();
  }
}

/** A key that must stay as it is for as long as somebody holds the lock. There may be tens of thousands. */
export class OwnedKey implements WatchHandler {
  readonly #ownership: OwnershipWatch;
  readonly #owner: Owner;
  readonly #acquisition: Acquisition;
  readonly #place: Place;
  #watch: Watch | undefined;
  #isOver = false;

  constructor(ownership: OwnershipWatch, owner: Owner, acquisition: Acquisition, place: Place) {
    this.#ownership = ownership;
    this.#owner = owner;
    this.#acquisition = acquisition;
    this.#place = place;
    ownership.add(this);
  }

  /** From when it was put on. */
  watch(): void {
    this.#watchFrom((this.#place.revision ?? 0n) + 1n);
  }

  /** Idempotent; nothing is called after it. */
  close(): void {
    this.#isOver = true;
    this.#ownership.remove(this);
    this.#watch?.close();
  }

  onEvents(events: readonly WatchEvent[]): void {
    for (const event of events) {
      if (this.#isOver) return;
      if (event.type === 'delete') this.#spoilt('key-deleted');
      else if (!this.#acquisition.isIntact(this.#place, event.kv)) this.#spoilt('foreign-write');
    }
  }

  onEnd(): void {
    void this.#readAgain();
  }

  #watchFrom(startRevision: bigint): void {
    this.#watch = this.#ownership.coordinator.watch({ key: this.#place.key, startRevision }, this);
  }

  /** The watch could not go on: look at the key, and watch on from there. */
  async #readAgain(): Promise<void> {
    const { coordinator, logger } = this.#ownership;
    const { key } = this.#place;
    const backOff = new BackOff(coordinator.clock);
    while (!this.#isOver) {
      try {
        await backOff.wait(undefined);
        const { kvs, revision } = await coordinator.range({ key, keysOnly: true });
        if (this.#isOver) return;
        const [found] = kvs;
        if (found !== undefined && this.#acquisition.isIntact(this.#place, found))
          return this.#watchFrom(revision + 1n);
        return this.#spoilt(found === undefined ? 'key-deleted' : 'foreign-write');
      } catch (error) {
        logger.warn({ key, err: error }, 'cannot see whether a lock is still ours, trying again');
      }
    }
  }

  #spoilt(cause: 'key-deleted' | 'foreign-write'): void {
    this.close();
    this.#owner.onSpoilt(cause);
  }
}
