import {
  type CallOptions,
  type Coordinator,
  LockkeeperError,
  type Txn,
  type TxnReply,
  type Watch,
  type WatchHandler,
} from '@lockkeeper/core';

/**
 * What becomes of one transaction: its reply is lost, or is so slow that the caller's own limit comes first, or
 * it is held back and sent when the test says so.
 */
type TxnFault =
  | { readonly kind: 'lose-reply' | 'slow-reply'; readonly matches: (txn: Txn) => boolean }
  | {
      readonly kind: 'hold-back';
      readonly matches: (txn: Txn) => boolean;
      readonly held: (send: () => Promise<TxnReply>) => void;
    };

/**
 * A coordinator whose connection misbehaves on request. What the caller sees is what a real connection
 * gives it: `unreachable`, with an unknown outcome. What etcd sees is decided by the test.
 */
export class FaultyCoordinator implements Coordinator {
  #inner: Coordinator;
  readonly #faults: TxnFault[] = [];
  readonly #watches = new Map<Watch, WatchHandler>();
  #refusal: LockkeeperError | undefined;
  #silent = false;
  /** Every transaction that was sent, in order. */
  readonly sent: Txn[] = [];
  /** Every lease that was asked for. */
  readonly leases: bigint[] = [];
  #slowGrants = false;

  constructor(inner: Coordinator) {
    this.#inner = inner;
  }

  get clock(): Coordinator['clock'] {
    return this.#inner.clock;
  }

  /** The next transaction that matches is applied, but its reply never arrives. */
  loseNextReply(matches: (txn: Txn) => boolean): void {
    this.#faults.push({ kind: 'lose-reply', matches });
  }

  /** The next transaction that matches is applied, but its reply does not come before the caller gives up. */
  slowDownNextReply(matches: (txn: Txn) => boolean): void {
    this.#faults.push({ kind: 'slow-reply', matches });
  }

  /** From now on leases are granted, but the replies do not come before the caller gives up. */
  slowDownGrants(): void {
    this.#slowGrants = true;
  }

  /** The next transaction that matches does not reach etcd before `send()`; the caller gives up on it at once. */
  holdNextBack(matches: (txn: Txn) => boolean): Promise<() => Promise<TxnReply>> {
    return new Promise((held) => this.#faults.push({ kind: 'hold-back', matches, held }));
  }

  /** Every watch that is open now is over, as after a compaction or without the right to go on. */
  endWatches(reason: LockkeeperError): number {
    const open = [...this.#watches];
    this.#watches.clear();
    for (const [watch, handler] of open) {
      watch.close();
      handler.onEnd(reason);
    }
    return open.length;
  }

  /** From now on every read is refused with this error, until `heal()`. */
  refuseReads(error: LockkeeperError): void {
    this.#refusal = error;
  }

  /** From now on nothing reaches etcd and nothing is answered, as when the cable is pulled. */
  goSilent(): void {
    this.#silent = true;
  }

  /** Everything that is sent from now on reaches another etcd. */
  reconnectTo(inner: Coordinator): void {
    this.#inner = inner;
  }

  heal(): void {
    this.#silent = false;
    this.#refusal = undefined;
  }

  endpoints: Coordinator['endpoints'] = () => this.#inner.endpoints();
  describe: Coordinator['describe'] = (options) =>
    this.#call('describe', () => this.#inner.describe(options));
  grant: Coordinator['grant'] = (request, options) =>
    this.#call('grant', async () => {
      this.leases.push(request.lease);
      const reply = await this.#inner.grant(request);
      return this.#slowGrants ? untilAborted(options) : reply;
    });
  renew: Coordinator['renew'] = (lease, options) =>
    this.#call('renew', () => this.#inner.renew(lease, options));
  timeToLive: Coordinator['timeToLive'] = (lease, options) =>
    this.#call('timeToLive', () => this.#inner.timeToLive(lease, options));
  revoke: Coordinator['revoke'] = (lease, options) =>
    this.#call('revoke', () => this.#inner.revoke(lease, options));
  range: Coordinator['range'] = (range, options) =>
    this.#call('range', async () => {
      if (this.#refusal !== undefined) throw this.#refusal;
      return this.#inner.range(range, options);
    });
  watch: Coordinator['watch'] = (request, handler) => {
    const inner = this.#inner.watch(request, handler);
    const close = () => {
      this.#watches.delete(watch);
      inner.close();
    };
    const watch: Watch = { close, [Symbol.dispose]: close };
    this.#watches.set(watch, handler);
    return watch;
  };
  txn: Coordinator['txn'] = (txn, options) => this.#call('txn', () => this.#txn(txn, options));

  close(): Promise<void> {
    return this.#inner.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #txn(txn: Txn, options: CallOptions | undefined): Promise<TxnReply> {
    this.sent.push(txn);
    const index = this.#faults.findIndex((fault) => fault.matches(txn));
    const [fault] = index < 0 ? [] : this.#faults.splice(index, 1);
    if (fault === undefined) return this.#inner.txn(txn, options);
    if (fault.kind === 'hold-back') fault.held(() => this.#inner.txn(txn));
    else await this.#inner.txn(txn);
    if (fault.kind === 'slow-reply') return untilAborted(options);
    throw unreachable('txn');
  }

  async #call<T>(verb: string, send: () => Promise<T>): Promise<T> {
    if (this.#silent) throw unreachable(verb);
    return send();
  }
}

function untilAborted(options: CallOptions | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const { signal } = options ?? {};
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** An acquire transaction. */
export function isEnqueue(txn: Txn): boolean {
  return txn.compare.length > 2 && txn.success.every(({ op }) => op === 'txn');
}

/** A release or another ending. */
export function isEnding(txn: Txn): boolean {
  return txn.success.some((operation) => operation.op === 'delete');
}

function unreachable(verb: string): LockkeeperError {
  return new LockkeeperError('unreachable', `${verb}: no reply (fault injected by the test)`);
}
