import type { Claimable } from '@lockkeeper/fencing';
import type { CallOptions } from '../coordinator/coordinator.ts';
import type { AcquireOptions, LockOptions, TryAcquireOptions } from '../lock/acquire-options.ts';
import { checkClaims } from '../lock/acquire-options.ts';
import type { Acquisition, Contender } from '../lock/acquisition.ts';
import type { Hold } from '../lock/hold.ts';
import { MOST_PERMITS, slotOf } from '../lock/key-layout.ts';
import { Lock } from '../lock/lock.ts';
import type { LockHost } from '../lock/lock-host.ts';
import { checkCall, checkObject, invalidOption } from '../validation.ts';
import { admission, type SemaphorePlan } from './admission.ts';
import { Permit } from './permit.ts';

export interface SemaphoreOptions extends LockOptions {
  /**
   * How many may hold at once, 1 to 1,000. Stored in etcd with the first grant, and compared in every later one: who
   * asks with another number is refused.
   */
  readonly permits: number;
}

interface SlotClaims {
  /** The guards of a slot's resource, which must promise before the permit is handed out. Default: none. */
  readonly claims?: ((slot: number) => readonly Claimable[]) | undefined;
}

export type AcquirePermitOptions = Omit<AcquireOptions, 'claims'> & SlotClaims;
export type TryAcquirePermitOptions = Omit<TryAcquireOptions, 'claims'> & SlotClaims;

/** The permit, or who stands first in the queue where there is none left. */
export type TryAcquiredPermit =
  | { readonly permit: Permit; readonly holder?: undefined }
  | { readonly permit?: undefined; readonly holder: Contender | undefined };

/**
 * A counting semaphore: at most `permits` hold at once, in the order in which they queued. Every permit is a slot,
 * with a key of its own on the holder's lease, so that one that crashes gives back exactly its own, and releasing
 * twice gives back one.
 *
 * Waiting inside a hold for another permit of the same semaphore is allowed, and can deadlock like everywhere.
 */
export class Semaphore {
  readonly name: string;
  readonly permits: number;
  readonly #plan: SemaphorePlan;
  readonly #host: LockHost;
  readonly #options: LockOptions;

  /** @internal */
  constructor(name: string, host: LockHost, options: SemaphoreOptions) {
    checkObject('options', options);
    this.name = name;
    this.permits = checkPermits(options.permits);
    this.#plan = { name, keys: host.layout.semaphore(name), permits: this.permits };
    this.#host = host;
    this.#options = options;
    this.#lock(undefined);
  }

  /**
   * Queues for a permit and resolves when it is ours.
   * @throws {@link LockkeeperError} as {@link Lock.acquire}, and `invalid-option` where the semaphore has another
   * number of permits; or `signal.reason`.
   */
  async acquire(options: AcquirePermitOptions = {}): Promise<Permit> {
    const { lock, rest } = this.#prepare(options);
    return this.#permit(await lock.acquire(rest));
  }

  /** Takes a permit if one is left and nobody queues for it; never waits in line. @throws as {@link acquire}. */
  async tryAcquire(options: TryAcquirePermitOptions = {}): Promise<TryAcquiredPermit> {
    const { lock, rest } = this.#prepare(options);
    const { hold, holder } = await lock.tryAcquire(rest);
    return hold === undefined ? { holder } : { permit: this.#permit(hold) };
  }

  /** Runs `work` while holding a permit, by the rules of {@link Lock.using}. */
  async using<T>(options: AcquirePermitOptions, work: (permit: Permit) => T | PromiseLike<T>): Promise<T> {
    if (typeof work !== 'function') throw invalidOption('work', work, 'expected a function');
    const { lock, rest } = this.#prepare(options);
    return lock.using(rest, (hold) => work(this.#permit(hold)));
  }

  /**
   * How many slots are free now; fewer than none while the limit is being lowered. For eyes: it may have changed by
   * the time it arrives.
   * @throws {@link LockkeeperError} `invalid-option`, `unreachable`, `permission-denied`, `closed`; or `signal.reason`.
   */
  async available(options: CallOptions = {}): Promise<number> {
    const { count } = await this.#host.options.coordinator.range(
      { ...this.#plan.keys.slots, keysOnly: true },
      checkCall(options),
    );
    return this.permits - count;
  }

  /**
   * Changes the number of permits for everybody: those that hold go on, and who asks with the old number is refused
   * from then on.
   * @throws {@link LockkeeperError} as {@link available}.
   */
  async resize(permits: number, options: CallOptions = {}): Promise<Semaphore> {
    const value = String(checkPermits(permits));
    const call = checkCall(options);
    const { limit } = this.#plan.keys;
    await this.#host.options.coordinator.txn(
      { compare: [], success: [{ op: 'put', key: limit, value }], failure: [{ op: 'range', key: limit }] },
      call,
    );
    return new Semaphore(this.name, this.#host, { ...this.#options, permits });
  }

  #prepare<Options extends SlotClaims>(options: Options) {
    checkObject('options', options);
    const { claims, ...rest } = options;
    if (claims !== undefined && typeof claims !== 'function')
      throw invalidOption('claims', claims, 'expected a function from a slot to its guards');
    return { lock: this.#lock(claims), rest };
  }

  #lock(claims: SlotClaims['claims']): Lock {
    const claimsOf = (acquisition: Acquisition) =>
      checkClaims(claims?.(this.#slotOf(acquisition.places.at(-1)?.key)));
    const target = {
      name: this.name,
      noun: 'semaphore',
      queues: [this.#plan.keys.queue],
      admit: admission(this.#plan, this.#host.semaphores),
      claimsOf,
    };
    return new Lock(target, this.#host, this.#options);
  }

  #permit(hold: Hold): Permit {
    const key = hold.compare().find(({ key }) => key.startsWith(this.#plan.keys.slots.key))?.key;
    return new Permit(hold, this.#slotOf(key));
  }

  #slotOf(key: string | undefined): number {
    const slot = slotOf(this.#plan.keys, key);
    if (slot === undefined) throw new Error(`a permit without a slot: ${key}`);
    return slot;
  }
}

function checkPermits(permits: unknown): number {
  if (Number.isInteger(permits) && (permits as number) >= 1 && (permits as number) <= MOST_PERMITS)
    return permits as number;
  throw invalidOption('permits', permits, `expected a whole number from 1 to ${MOST_PERMITS}`);
}
