import { AsyncLocalStorage } from 'node:async_hooks';
import { LockkeeperError } from '../errors.ts';
import type { Hold } from './hold.ts';
import type { Queue } from './key-layout.ts';

interface Surrounding {
  readonly owner: Surroundings;
  readonly hold: Hold;
  readonly outer: Surrounding | undefined;
}

/** One for all keepers: Node never forgets a storage that was used, and asks each of them at every promise. */
const storage = new AsyncLocalStorage<Surrounding>();

/**
 * Which `using` callbacks the current code runs inside of, and which of them are still at work. A lock is
 * not re-entrant: waiting inside its own callback would wait for ever, so that is refused instead.
 */
export class Surroundings {
  readonly #running = new Set<Promise<unknown>>();

  /** @throws LockkeeperError `not-reentrant` where a surrounding hold is of a family of one of these queues. */
  refuseIfHeld(queues: readonly Queue[]): void {
    for (let at = storage.getStore(); at !== undefined; at = at.outer) {
      const { standing } = at.hold;
      const waits =
        at.owner === this && at.hold.families.some((held) => queues.some(({ family }) => family === held));
      if (waits && (standing === 'held' || standing === 'suspect')) {
        throw new LockkeeperError(
          'not-reentrant',
          `${at.hold.title} is already held by the surrounding using() callback, which would wait for itself`,
        );
      }
    }
  }

  /** Runs `work` as inside of `hold`, which is then not asked for again in there. */
  inside<H extends Hold, T>(hold: H, work: (hold: H) => T | PromiseLike<T>): Promise<T> {
    return storage.run({ owner: this, hold, outer: storage.getStore() }, async () => work(hold));
  }

  /** Work that `drained()` waits for. Never rejects. */
  track(work: Promise<void>): void {
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }

  /** Runs `work` under `hold`, releases the hold, and settles by the rules of `Lock.using`. */
  async run<H extends Hold, T>(hold: H, work: (hold: H) => T | PromiseLike<T>): Promise<T> {
    const running = this.inside(hold, work);
    this.track(running.then(ignore, ignore));
    let result: T;
    try {
      result = await running;
    } catch (error) {
      await hold.release();
      if (hold.loss !== undefined) attach(error, hold.loss);
      throw error;
    }
    await hold.release();
    const { loss } = hold;
    if (loss === undefined) return result;
    throw new LockkeeperError(
      'lost',
      `${loss.message}; the work had returned, its result is in error.result`,
      {
        cause: loss,
        lossCause: loss.lossCause,
        result,
      },
    );
  }

  /** Resolves when every callback that runs now has settled. */
  async drained(): Promise<void> {
    await Promise.all(this.#running);
  }
}

/** The work's own error stays what it is; the lock's error rides along, unseen by enumeration. */
function attach(error: unknown, lockError: LockkeeperError): void {
  if (typeof error !== 'object' || error === null || !Object.isExtensible(error)) return;
  Object.defineProperty(error, 'lockError', { value: lockError, configurable: true, writable: true });
}

function ignore(): void {}
