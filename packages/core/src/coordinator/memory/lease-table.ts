import type { Clock, Timer } from '../../clock.ts';
import type { ByteKey } from './byte-key.ts';

export interface Lease {
  readonly id: bigint;
  readonly ttlMs: number;
  /** On the clock; at this very moment the lease is expired. */
  expiresAt: number;
  readonly keys: Set<ByteKey>;
}

/**
 * The leases that stand. One timer, which does not keep the process alive, waits for a moment that is
 * never later than the earliest expiry; renewing moves expiries only away from it.
 */
export class LeaseTable {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  readonly #leases = new Map<bigint, Lease>();
  #wakeAt = Number.POSITIVE_INFINITY;
  #timer: Timer | undefined;

  /** @param onDue - called by the timer; must take the expired leases. */
  constructor(clock: Clock, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  get(id: bigint): Lease | undefined {
    return this.#leases.get(id);
  }

  add(id: bigint, ttlMs: number): void {
    const expiresAt = this.#clock.now() + ttlMs;
    this.#leases.set(id, { id, ttlMs, expiresAt, keys: new Set() });
    if (expiresAt < this.#wakeAt) this.#wake(expiresAt);
  }

  renew(lease: Lease): void {
    lease.expiresAt = this.#clock.now() + lease.ttlMs;
  }

  remove(lease: Lease): void {
    this.#leases.delete(lease.id);
    if (this.#leases.size === 0) this.#wake(Number.POSITIVE_INFINITY);
  }

  /** Removes the leases that have expired by now and returns them, the earliest first. */
  takeExpired(): Lease[] {
    const now = this.#clock.now();
    if (now < this.#wakeAt) return [];
    const expired: Lease[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const lease of this.#leases.values()) {
      if (lease.expiresAt <= now) expired.push(lease);
      else next = Math.min(next, lease.expiresAt);
    }
    for (const lease of expired) this.#leases.delete(lease.id);
    this.#wake(next);
    return expired.sort((a, b) => a.expiresAt - b.expiresAt || (a.id < b.id ? -1 : 1));
  }

  #wake(at: number): void {
    this.#wakeAt = at;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (at === Number.POSITIVE_INFINITY) return;
    const timer = this.#clock.setTimer(
      at - this.#clock.now(),
      () => {
        this.#onDue();
        // Node may fire a timer a little before its time: then nothing had expired, and this one still stands.
        if (this.#timer === timer) this.#wake(this.#wakeAt);
      },
      { ref: false },
    );
    this.#timer = timer;
  }
}
