import { AsyncLocalStorage } from 'node:async_hooks';
import { GuardError } from '@lockkeeper/fencing';

/** What a run keeps from others while its effect is at work. */
export interface Held {
  /** The pool, the client, or the guard in memory. */
  readonly source: object;
  /** One lock of that source; `undefined` where the run keeps the whole source. */
  readonly lock: unknown;
}

/** One for all guards: Node asks every storage that was ever used at each promise. */
const storage = new AsyncLocalStorage<EffectScope>();

/**
 * One effect at work, known to all code that runs inside it. A call in there that needs what the run around
 * it holds would wait for itself, so it is refused instead. It cannot be seen where the run holds through
 * another pool, or another process.
 */
export class EffectScope {
  readonly #held: Held;
  readonly #outer: EffectScope | undefined;
  #over = false;

  constructor(held: Held) {
    this.#held = held;
    // Only those still at work: work that an effect left behind may start effects for ever.
    let outer = storage.getStore();
    for (; outer !== undefined; outer = outer.#outer) if (!outer.#over) break;
    this.#outer = outer;
  }

  /** @throws GuardError `invalid-option` inside an effect that holds `needed` already. */
  static refuse(needed: Held, resource: string): void {
    for (let at = storage.getStore(); at !== undefined; at = at.#outer) {
      if (at.#over || at.#held.source !== needed.source || at.#held.lock !== needed.lock) continue;
      const what = 'called inside an effect that keeps it waiting until that effect has settled';
      throw new GuardError(
        'invalid-option',
        `guard "${resource}": ${what}; write through the effect's handle`,
        {
          resource,
        },
      );
    }
  }

  async run<T>(effect: () => T | Promise<T>): Promise<T> {
    return storage.run(this, effect);
  }

  /** For storages whose effects may end before any promise could. */
  runNow<T>(effect: () => T): T {
    return storage.run(this, effect);
  }

  /** What the run held is given back: what the effect left behind may call again. */
  end(): void {
    this.#over = true;
  }
}
