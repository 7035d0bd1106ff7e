import type { Timer } from '../clock.ts';
import type { Coordinator, KeyValue, Watch } from '../coordinator/coordinator.ts';
import type { Logger } from '../options.ts';
import { BackOff } from './back-off.ts';

/** A key that must stay as it is for as long as somebody holds the lock. */
export interface OwnedKey {
  readonly key: string;
  /** When the key was put. */
  readonly revision: bigint;
  /** Whether what stands there is still what its owner left. */
  isIntact(kv: KeyValue): boolean;
  /** Called once, when the key is gone or overwritten. */
  onSpoilt(cause: 'key-deleted' | 'foreign-write'): void;
}

/** Most holds are over before this; only what lasts longer is worth a watch. Well below a second. */
const SETTLE_MS = 250;

/**
 * Notices within a second when somebody else deletes or overwrites the key of a hold. All watches share
 * the coordinator's one stream, start at the key's own revision, so that nothing in between is missed, and
 * are opened only for holds that last.
 */
export class OwnershipWatch {
  readonly #coordinator: Coordinator;
  readonly #logger: Logger;
  readonly #young = new Set<OwnedKey>();
  readonly #watches = new Map<OwnedKey, Watch>();
  #timer: Timer | undefined;

  constructor(coordinator: Coordinator, logger: Logger) {
    this.#coordinator = coordinator;
    this.#logger = logger;
  }

  add(owned: OwnedKey): void {
    this.#young.add(owned);
    // The session keeps the process alive for a hold; this need not.
    this.#timer ??= this.#coordinator.clock.setTimer(SETTLE_MS, () => this.#watchAll(), { ref: false });
  }

  /** Idempotent; nothing is called after it. */
  remove(owned: OwnedKey): void {
    this.#young.delete(owned);
    this.#watches.get(owned)?.close();
    this.#watches.delete(owned);
    if (this.#young.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #watchAll(): void {
    this.#timer = undefined;
    for (const owned of this.#young) this.#watch(owned, owned.revision + 1n);
    this.#young.clear();
  }

  #watch(owned: OwnedKey, startRevision: bigint): void {
    const watch = this.#coordinator.watch(
      { key: owned.key, startRevision },
      {
        onEvents: (events) => {
          for (const event of events) {
            if (event.type === 'delete') return this.#spoilt(owned, 'key-deleted');
            if (!owned.isIntact(event.kv)) return this.#spoilt(owned, 'foreign-write');
          }
        },
        onEnd: () => void this.#readAgain(owned),
      },
    );
    this.#watches.set(owned, watch);
  }

  /** The watch could not go on: look at the key, and watch on from there. */
  async #readAgain(owned: OwnedKey): Promise<void> {
    const backOff = new BackOff(this.#coordinator.clock);
    while (this.#watches.has(owned)) {
      try {
        await backOff.wait(undefined);
        const { kvs, revision } = await this.#coordinator.range({ key: owned.key, keysOnly: true });
        if (!this.#watches.has(owned)) return;
        const [found] = kvs;
        if (found !== undefined && owned.isIntact(found)) return this.#watch(owned, revision + 1n);
        return this.#spoilt(owned, found === undefined ? 'key-deleted' : 'foreign-write');
      } catch (error) {
        this.#logger.warn(
          { key: owned.key, err: error },
          'cannot see whether a lock is still ours, trying again',
        );
      }
    }
  }

  #spoilt(owned: OwnedKey, cause: 'key-deleted' | 'foreign-write'): void {
    this.remove(owned);
    owned.onSpoilt(cause);
  }
}
