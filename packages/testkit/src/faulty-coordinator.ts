import {
  type CallOptions,
  type Coordinator,
  type GrantReply,
  type GrantRequest,
  LockkeeperError,
  type RangeReply,
  type RangeRequest,
  type Txn,
  type TxnReply,
  type Watch,
  type WatchHandler,
  type WatchRequest,
} from '@lockkeeper/core';
import { type Fault, faultOf } from './fault.ts';
import {
  type CoordinatorVerb,
  type FaultAct,
  FaultActs,
  type FaultPoint,
  hasPut,
  within,
} from './fault-points.ts';
import { FaultyWatch } from './faulty-watch.ts';

/** What becomes of one transaction: its reply is lost, or it is held back and sent when the test says so. */
type TxnFault = {
  readonly matches: (txn: Txn) => boolean;
  /** Takes over the sending; without it the reply is lost. */
  readonly held?: (send: () => Promise<TxnReply>) => void;
};

/**
 * A coordinator whose connection misbehaves on request, for a keeper in this process: on etcd or in memory,
 * in real or virtual time. What the caller sees is what a real connection gives it: `unreachable`, with an
 * unknown outcome. What etcd sees is decided by the test.
 *
 * ```ts
 * const connection = new FaultyCoordinator(etcdCoordinator({ hosts }));
 * const keeper = await connect({ coordinator: connection });
 * connection.loseNextReply(isEnqueue);
 * await keeper.lock('x').acquire(); // finds out that it was carried out after all
 * ```
 */
export class FaultyCoordinator implements Coordinator {
  #inner: Coordinator;
  readonly #acts = new FaultActs();
  readonly #txnFaults: TxnFault[] = [];
  readonly #watches = new Set<FaultyWatch>();
  #refusal: LockkeeperError | undefined;
  #silent = false;
  /** Every transaction that was asked for while it was not silent, in order. */
  readonly sent: Txn[] = [];
  /** Every lease that was asked for while it was not silent, in order. */
  readonly leases: bigint[] = [];

  /** @param inner is closed with this one. */
  constructor(inner: Coordinator) {
    this.#inner = inner;
  }

  get clock(): Coordinator['clock'] {
    return this.#inner.clock;
  }

  /**
   * Steps in at a named point, each time it is reached, until restored. The call (or the watch's events, and
   * all that follow them) waits for the promise that `act` returns; a caller waits no longer than its own
   * `timeoutMs` and `signal` say, and what it asked for goes its way all the same. What `act` throws, the
   * caller sees instead of the reply; a watch ends with it.
   *
   * ```ts
   * // A process that dies between its lease and its key.
   * connection.at('afterGrant', () => process.kill(process.pid, 'SIGKILL'));
   * ```
   */
  at<P extends FaultPoint>(point: P, act: FaultAct<P>): Fault {
    return faultOf(this.#acts.add(point, act));
  }

  /** The next transaction that matches is applied, but its reply never arrives. */
  loseNextReply(matches: (txn: Txn) => boolean): void {
    this.#txnFaults.push({ matches });
  }

  /**
   * The next transaction that matches does not reach etcd before `send()`; the caller gives up on it at once.
   * @returns `send`, when the transaction is held.
   */
  holdNextBack(matches: (txn: Txn) => boolean): Promise<() => Promise<TxnReply>> {
    return new Promise((held) => this.#txnFaults.push({ matches, held }));
  }

  /**
   * Every watch that is open now is over, as after a compaction or without the right to go on.
   * @returns how many those were.
   */
  endWatches(reason: LockkeeperError): number {
    const open = [...this.#watches];
    for (const watch of open) watch.end(reason);
    return open.length;
  }

  /** From now on every `range` is refused with this error, until `heal()`. */
  refuseReads(error: LockkeeperError): void {
    this.#refusal = error;
  }

  /**
   * From now on calls fail at once and reach nobody, as when the cable is pulled, until `heal()`. What is on
   * its way is answered, and open watches go on.
   */
  goSilent(): void {
    this.#silent = true;
  }

  /** Everything that is sent from now on reaches another etcd. Watches stay where they are. */
  reconnectTo(inner: Coordinator): void {
    this.#inner = inner;
  }

  /** Ends `goSilent()` and `refuseReads()`. */
  heal(): void {
    this.#silent = false;
    this.#refusal = undefined;
  }

  endpoints(): ReturnType<Coordinator['endpoints']> {
    return this.#inner.endpoints();
  }

  describe(options?: CallOptions): Promise<string> {
    return this.#call({ verb: 'describe' }, options, (limits) => this.#inner.describe(limits));
  }

  grant(request: GrantRequest, options?: CallOptions): Promise<GrantReply> {
    const send = (limits?: CallOptions) => {
      this.leases.push(request.lease);
      return this.#inner.grant(request, limits);
    };
    return this.#call({ verb: 'grant' }, options, send, async (reply) => {
      await this.#acts.reach('afterGrant', { request, reply });
    });
  }

  renew(lease: bigint, options?: CallOptions): Promise<{ readonly ttlMs: number }> {
    return this.#call({ verb: 'renew' }, options, (limits) => this.#inner.renew(lease, limits));
  }

  timeToLive(lease: bigint, options?: CallOptions): ReturnType<Coordinator['timeToLive']> {
    return this.#call({ verb: 'timeToLive' }, options, (limits) => this.#inner.timeToLive(lease, limits));
  }

  revoke(lease: bigint, options?: CallOptions): Promise<void> {
    return this.#call({ verb: 'revoke' }, options, (limits) => this.#inner.revoke(lease, limits));
  }

  range(range: RangeRequest, options?: CallOptions): Promise<RangeReply> {
    return this.#call({ verb: 'range' }, options, async (limits) => {
      if (this.#refusal !== undefined) throw this.#refusal;
      return this.#inner.range(range, limits);
    });
  }

  txn(txn: Txn, options?: CallOptions): Promise<TxnReply> {
    const send = (limits?: CallOptions) => this.#send(txn, limits);
    return this.#call({ verb: 'txn', txn }, options, send, async (reply) => {
      if (hasPut(txn, reply)) await this.#acts.reach('afterPut', { txn, reply });
    });
  }

  watch(request: WatchRequest, handler: WatchHandler): Watch {
    const watch = new FaultyWatch(
      (gated) => this.#inner.watch(request, gated),
      handler,
      (events) => (this.#acts.any('onWatch') ? this.#acts.reach('onWatch', { request, events }) : undefined),
      () => this.#watches.delete(watch),
    );
    this.#watches.add(watch);
    return watch;
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #send(txn: Txn, limits: CallOptions | undefined): Promise<TxnReply> {
    this.sent.push(txn);
    const index = this.#txnFaults.findIndex(({ matches }) => matches(txn));
    const [fault] = index < 0 ? [] : this.#txnFaults.splice(index, 1);
    if (fault === undefined) return this.#inner.txn(txn, limits);
    if (fault.held === undefined) await this.#inner.txn(txn);
    else fault.held(() => this.#inner.txn(txn));
    throw lost('txn');
  }

  async #call<T>(
    { verb, txn }: { readonly verb: CoordinatorVerb; readonly txn?: Txn },
    options: CallOptions | undefined,
    send: (limits?: CallOptions) => Promise<T>,
    answered?: (reply: T) => Promise<void>,
  ): Promise<T> {
    if (this.#silent) throw lost(verb);
    if (!this.#acts.any()) return send(options);
    const answer = async () => {
      await this.#acts.reach('beforeSend', { verb, txn });
      // Without the caller's limits: after a fault point the request goes its way, also when nobody waits.
      const reply = await send();
      await answered?.(reply);
      await this.#acts.reach('beforeReply', { verb, reply });
      return reply;
    };
    return within(this.clock, verb, options ?? {}, answer());
  }
}

/** Whether it is a lock's acquire transaction. */
export function isEnqueue(txn: Txn): boolean {
  return txn.compare.length > 2 && txn.success.every(({ op }) => op === 'txn');
}

/** Whether it ends an acquisition: a release, a give-up, or what follows a loss. */
export function isEnding(txn: Txn): boolean {
  return txn.success.some((operation) => operation.op === 'delete');
}

function lost(verb: string): LockkeeperError {
  return new LockkeeperError('unreachable', `${verb}: no reply (fault injected)`);
}
