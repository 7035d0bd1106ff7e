import { AbortScope, type AbortSignalLike } from '../../signals.ts';
import type { CallOptions, Txn, TxnReply } from '../coordinator.ts';
import type { Batchable } from './batch.ts';
import type { Footprint } from './footprint.ts';

/** One transaction on its way through group commit. It settles once, by whatever comes first. */
export class Member implements Batchable {
  readonly txn: Txn;
  readonly footprint: Footprint;
  /** When its caller stops waiting, on the monotonic clock. */
  readonly until: number;
  readonly signal: AbortSignalLike | undefined;
  readonly reply: Promise<TxnReply>;
  /** Whether a copy of it is on its way, so that it may be applied. */
  isSent = false;
  /** Whether it was left behind because it touches what an earlier one touches. */
  wasPassedOver = false;
  isSettled = false;
  /** The batch that it is in while that is on its way. */
  flight: Flight | undefined;
  readonly #onUnsent: (() => void) | undefined;
  readonly #onSettled: (member: Member) => void;
  #resolve!: (reply: TxnReply) => void;
  #reject!: (error: unknown) => void;
  #onAbort: (() => void) | undefined;

  constructor(
    txn: Txn,
    footprint: Footprint,
    until: number,
    { signal, onUnsent }: CallOptions,
    onSettled: (member: Member) => void,
  ) {
    this.txn = txn;
    this.footprint = footprint;
    this.until = until;
    this.signal = signal;
    this.#onUnsent = onUnsent;
    this.#onSettled = onSettled;
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  succeed(reply: TxnReply): void {
    if (this.#settle()) this.#resolve(reply);
  }

  fail(error: unknown): void {
    if (!this.#settle()) return;
    if (!this.isSent) this.#onUnsent?.();
    this.#reject(error);
  }

  /** From here on its signal ends it at once. */
  heedSignal(): void {
    const { signal } = this;
    if (this.#onAbort !== undefined || signal === undefined) return;
    this.#onAbort = () => this.fail(signal.reason);
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  #settle(): boolean {
    if (this.isSettled) return false;
    this.isSettled = true;
    if (this.#onAbort !== undefined) this.signal?.removeEventListener('abort', this.#onAbort);
    this.#onSettled(this);
    return true;
  }
}

/** A batch on its way. When nobody waits for it any more it is given up. */
export class Flight {
  /** Aborts when nobody waits any more. */
  readonly scope: AbortScope = new AbortScope();
  #left: number;

  constructor(members: number) {
    this.#left = members;
  }

  leave(): void {
    this.#left -= 1;
    if (this.#left === 0) this.scope.abort(undefined);
  }
}
