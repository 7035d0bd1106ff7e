import type { Txn, TxnReply } from '../coordinator.ts';
import type { Batchable } from './batch.ts';
import type { Footprint } from './footprint.ts';

/** What a caller asks for: the transaction, and for how long. */
export interface Asked {
  readonly txn: Txn;
  readonly footprint: Footprint;
  /** When its caller stops waiting, on the monotonic clock. */
  readonly until: number;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (reply: TxnReply) => void;
  readonly reject: (error: unknown) => void;
}

/** One transaction on its way through group commit. It settles once, by whatever comes first. */
export class Member implements Batchable {
  /** Whether a copy of it is on its way, so that it may be applied. */
  isSent = false;
  /** Whether it was left behind because it touches what an earlier one touches. */
  wasPassedOver = false;
  isSettled = false;
  /** The batch that it is in while that is on its way. */
  flight: Flight | undefined;
  readonly #asked: Asked;
  readonly #onSettled: (member: Member) => void;
  #listens = false;

  constructor(asked: Asked, onSettled: (member: Member) => void) {
    this.#asked = asked;
    this.#onSettled = onSettled;
  }

  get txn(): Txn {
    return this.#asked.txn;
  }

  get footprint(): Footprint {
    return this.#asked.footprint;
  }

  get until(): number {
    return this.#asked.until;
  }

  get signal(): AbortSignal | undefined {
    return this.#asked.signal;
  }

  succeed(reply: TxnReply): void {
    if (this.#settle()) this.#asked.resolve(reply);
  }

  fail(error: unknown): void {
    if (this.#settle()) this.#asked.reject(error);
  }

  /** From here on its signal ends it at once. */
  heedSignal(): void {
    const { signal } = this;
    if (this.#listens || signal === undefined) return;
    this.#listens = true;
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  readonly #onAbort = (): void => this.fail(this.signal?.reason);

  #settle(): boolean {
    if (this.isSettled) return false;
    this.isSettled = true;
    if (this.#listens) this.signal?.removeEventListener('abort', this.#onAbort);
    this.#onSettled(this);
    return true;
  }
}

/** A batch on its way. When nobody waits for it any more it is given up. */
export class Flight {
  readonly #nobodyWaits = new AbortController();
  #left: number;

  constructor(members: number) {
    this.#left = members;
  }

  get signal(): AbortSignal {
    return this.#nobodyWaits.signal;
  }

  leave(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#nobodyWaits.abort();
  }
}
