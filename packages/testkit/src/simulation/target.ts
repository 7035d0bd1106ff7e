import type {
  AcquireOptions,
  Election,
  Hold,
  Keeper,
  Lock,
  LockOptions,
  Permit,
  Semaphore,
} from '@lockkeeper/core';
import type { Claimable, FencingToken } from '@lockkeeper/fencing';
import { slotOf } from './queues.ts';

/** What is acquired: one thing, or several locks as one. */
export type Target =
  | { readonly kind: 'lock' | 'read' | 'write'; readonly name: string }
  | { readonly kind: 'election'; readonly name: string }
  | { readonly kind: 'semaphore'; readonly name: string; readonly permits: number }
  | { readonly kind: 'set'; readonly names: readonly string[] };

/** What is held, of whatever kind. */
export type AnyHold = Pick<
  Hold,
  'token' | 'standing' | 'signal' | 'ttlMs' | 'remainingMs' | 'assertHeld' | 'compare' | 'release'
> &
  // Nobody can ask for a permit.
  Partial<Pick<Hold, 'onReleaseRequested'>>;

/** What is acquired but is not led. */
export interface Acquirable {
  acquire(options: AcquireOptions): Promise<AnyHold>;
  tryAcquire(options: AcquireOptions): Promise<{ readonly hold?: AnyHold | undefined }>;
  using<T>(options: AcquireOptions, work: (hold: AnyHold) => Promise<T>): Promise<T>;
}

/** The queues in which its keys may stand, like `lock/red`; of a semaphore the slots too. */
export function queuesOf(target: Target): readonly string[] {
  switch (target.kind) {
    case 'lock':
    case 'election':
      return [`${target.kind}/${target.name}`];
    case 'read':
    case 'write':
      return [`rw/${target.name}`];
    case 'semaphore': {
      const queue = `semaphore/${target.name}`;
      return [queue, ...Array.from({ length: target.permits }, (_, slot) => slotOf(queue, slot))];
    }
    case 'set':
      return target.names.map((name) => `lock/${name}`);
  }
}

/**
 * What is guarded. Guards know nothing but tokens, whose order is that of one queue; of a semaphore each slot is a
 * thing of its own.
 */
export function resourcesOf(target: Target, hold: AnyHold): readonly string[] {
  if (target.kind !== 'semaphore') return queuesOf(target);
  return hold instanceof HeldPermit ? [slotOf(`semaphore/${target.name}`, hold.slot)] : [];
}

export function describeTarget(target: Target): string {
  if (target.kind === 'set') return `set ${target.names.join(' + ')}`;
  if (target.kind === 'semaphore') return `one of ${target.permits} permits of ${target.name}`;
  return `${target.kind} ${target.name}`;
}

/** @param guardsOf - the guards of a resource. */
export function acquirableOf(
  keeper: Keeper,
  target: Exclude<Target, { kind: 'election' }>,
  options: LockOptions,
  guardsOf: (resource: string) => readonly Claimable[],
): Acquirable {
  if (target.kind !== 'semaphore') return lockOf(keeper, target, options);
  const { name, permits } = target;
  const semaphore = keeper.semaphore(name, { ...options, permits });
  return permitsOf(semaphore, (slot) => guardsOf(slotOf(`semaphore/${name}`, slot)));
}

export function lockOf(
  keeper: Keeper,
  target: Exclude<Target, { kind: 'election' | 'semaphore' }>,
  options: LockOptions,
): Lock {
  switch (target.kind) {
    case 'lock':
      return keeper.lock(target.name, options);
    case 'read':
    case 'write':
      return keeper.readWriteLock(target.name, options)[target.kind];
    case 'set':
      return keeper.locks(target.names, options);
  }
}

export function electionOf(keeper: Keeper, name: string, options: LockOptions): Election {
  return keeper.election(name, options);
}

function permitsOf(semaphore: Semaphore, claims: (slot: number) => readonly Claimable[]): Acquirable {
  const held = (permit: Permit) => new HeldPermit(permit);
  return {
    acquire: async (options) => held(await semaphore.acquire({ ...options, claims })),
    tryAcquire: async (options) => {
      const { permit } = await semaphore.tryAcquire({ ...options, claims });
      return permit === undefined ? {} : { hold: held(permit) };
    },
    using: (options, work) => semaphore.using({ ...options, claims }, (permit) => work(held(permit))),
  };
}

/** A permit, with the token that the guard of its slot takes. */
class HeldPermit implements AnyHold {
  readonly token: FencingToken;
  readonly slot: number;
  readonly ttlMs: number;
  readonly #permit: Permit;

  constructor(permit: Permit) {
    this.token = permit.token.forSlot(permit.slot);
    this.slot = permit.slot;
    this.ttlMs = permit.ttlMs;
    this.#permit = permit;
  }

  get standing() {
    return this.#permit.standing;
  }

  get signal() {
    return this.#permit.signal;
  }

  remainingMs() {
    return this.#permit.remainingMs();
  }

  assertHeld() {
    this.#permit.assertHeld();
  }

  compare() {
    return this.#permit.compare();
  }

  release() {
    return this.#permit.release();
  }
}
