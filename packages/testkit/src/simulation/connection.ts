import type {
  CallOptions,
  Coordinator,
  EndpointHealth,
  GrantReply,
  GrantRequest,
  LeaseTime,
  RangeReply,
  RangeRequest,
  Txn,
  TxnReply,
  Watch,
  WatchHandler,
  WatchRequest,
} from '@lockkeeper/core';
import { LockkeeperError } from '@lockkeeper/core';
import type { MemoryStore } from '@lockkeeper/core/memory';
import { type Described, describeTxn } from './describe-txn.ts';
import type { EtcdRequest, SimulatedEtcd } from './etcd.ts';
import type { Network } from './network.ts';
import type { SimulatedProcess } from './process.ts';
import type { Trace } from './trace.ts';
import { SimulatedWatch } from './watch.ts';
import type { World } from './world.ts';

const DEFAULT_TIMEOUT_MS = 5_000;
const UNANSWERED = { succeed: () => {}, fail: () => {}, refuse: () => {} };

export interface Surroundings {
  readonly world: World;
  readonly network: Network;
  readonly etcd: SimulatedEtcd;
  readonly trace: Trace | undefined;
  /** Told when a revocation that a client asked for is about to be applied. */
  readonly onRevoke: (lease: bigint, by: SimulatedProcess) => void;
}

interface Call<T> {
  readonly what: Described;
  readonly options: CallOptions | undefined;
  readonly apply: (store: MemoryStore) => T;
  readonly renews?: bigint;
  readonly grants?: bigint;
  readonly revokes?: bigint;
  /** A second copy could not have come from our client. */
  readonly once?: boolean;
}

/**
 * One process's connection to etcd, held to the port's promises: every call settles within its time limit,
 * on time as its process counts it; no request is sent twice by us; and a request that was given up may
 * still be applied later.
 */
export class SimulatedConnection implements Coordinator {
  readonly clock: SimulatedProcess;
  readonly name: string;
  readonly #around: Surroundings;
  readonly #pending = new Set<(error: unknown) => void>();
  readonly #watches = new Set<SimulatedWatch>();
  #sent = 0;
  #closed = false;
  /** How often opening a session failed: a `lineage` or `grant` call without an answer. */
  openingsFailed = 0;

  constructor(name: string, process: SimulatedProcess, around: Surroundings) {
    this.name = name;
    this.clock = process;
    this.#around = around;
  }

  get pendingCalls(): number {
    return this.#pending.size;
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  async describe(): Promise<string> {
    return 'simulated';
  }

  endpoints(): readonly EndpointHealth[] {
    return [{ name: 'simulated', connected: !this.#closed, current: true }];
  }

  grant(request: GrantRequest, options?: CallOptions): Promise<GrantReply> {
    const what = { verb: 'grant', detail: () => this.#around.trace?.lease(request.lease) ?? '' };
    const apply = (store: MemoryStore) => store.grant(request);
    return this.#call({ what, options, apply, grants: request.lease, once: true });
  }

  renew(lease: bigint, options?: CallOptions): Promise<{ readonly ttlMs: number }> {
    const what = { verb: 'renew', detail: () => this.#around.trace?.lease(lease) ?? '' };
    return this.#call({ what, options, apply: (store) => store.renew(lease), renews: lease });
  }

  timeToLive(lease: bigint, options?: CallOptions): Promise<LeaseTime | undefined> {
    const what = { verb: 'time to live', detail: () => this.#around.trace?.lease(lease) ?? '' };
    return this.#call({ what, options, apply: (store) => store.timeToLive(lease) });
  }

  revoke(lease: bigint, options?: CallOptions): Promise<void> {
    const what = { verb: 'revoke', detail: () => this.#around.trace?.lease(lease) ?? '' };
    const apply = (store: MemoryStore) => {
      this.#around.onRevoke(lease, this.clock);
      store.revoke(lease);
    };
    return this.#call({ what, options, apply, revokes: lease });
  }

  txn(txn: Txn, options?: CallOptions): Promise<TxnReply> {
    const what = describeTxn(txn, () => this.#around.trace);
    return this.#call({ what, options, apply: (store) => store.txn(txn) });
  }

  range(range: RangeRequest, options?: CallOptions): Promise<RangeReply> {
    const verb = range.key.endsWith('/lineage') ? 'lineage' : 'range';
    const what = { verb, detail: () => this.#around.trace?.key(range.key) ?? '' };
    return this.#call({ what, options, apply: (store) => store.range(range) });
  }

  watch(request: WatchRequest, handler: WatchHandler): Watch {
    const watch = new SimulatedWatch(this, this.#around, request, handler, () => this.#watches.delete(watch));
    this.#watches.add(watch);
    if (this.#closed) watch.end(closedError('rejected'));
    return watch;
  }

  /** A name for the next message or stream. */
  nextId(): string {
    this.#sent += 1;
    return `${this.name}#${this.#sent}`;
  }

  breakWatches(): void {
    for (const watch of [...this.#watches]) watch.break();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const reject of [...this.#pending]) reject(closedError('unknown'));
    for (const watch of [...this.#watches]) watch.end(closedError('rejected'));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #call<T>(call: Call<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const { signal, timeoutMs = DEFAULT_TIMEOUT_MS } = call.options ?? {};
      if (this.#closed) return reject(closedError('rejected'));
      if (signal?.aborted) return reject(signal.reason);
      let open = true;
      const settle = (act: () => void) => {
        if (!open) return;
        open = false;
        timer.cancel();
        signal?.removeEventListener('abort', onAbort);
        this.#pending.delete(fail);
        act();
      };
      const fail = (error: unknown) =>
        settle(() => {
          if (call.what.verb === 'lineage' || call.what.verb === 'grant') this.openingsFailed += 1;
          reject(error);
        });
      const onAbort = () => fail(signal?.reason);
      const timer = this.clock.setTimer(timeoutMs, () => fail(unreachable(call.what, `${timeoutMs} ms`)));
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#pending.add(fail);
      this.#send(call, (reply) => settle(() => resolve(reply as T)), fail);
    });
  }

  #send<T>(call: Call<T>, succeed: (reply: unknown) => void, fail: (error: unknown) => void): void {
    const { world, network, etcd, trace } = this.#around;
    const { what } = call;
    const fate = network.fateOf(this.nextId());
    const back = (how: string, act: () => void): void => {
      if (fate.loseReply) {
        trace?.add('network', `loses the reply to ${what.verb} ${what.detail()} of ${this.name} (${how})`);
        return;
      }
      network.carry(this.clock.name, fate, fate.replyMs, () => this.clock.deliver(act));
    };
    const request: EtcdRequest = {
      from: this.clock.name,
      fate,
      renews: call.renews,
      grants: call.grants,
      revokes: call.revokes,
      apply: call.apply,
      succeed: (reply) => {
        const result = what.outcome?.(reply) ?? 'ok';
        trace?.add('etcd', `${what.verb} ${what.detail()} of ${this.name}: ${result}`);
        back(result, () => succeed(reply));
      },
      fail: (error) => {
        const code = error instanceof LockkeeperError ? error.code : String(error);
        trace?.add('etcd', `${what.verb} ${what.detail()} of ${this.name}: ${code}`);
        back(code, () => fail(error));
      },
      refuse: () => back('refused', () => fail(unreachable(what, 'refused', 'rejected'))),
    };
    if (fate.resetMs !== undefined) {
      world.after(fate.resetMs, () => this.clock.deliver(() => fail(unreachable(what, 'reset'))));
    }
    if (fate.loseRequest) {
      trace?.add('network', `loses ${what.verb} ${what.detail()} of ${this.name}`);
      return;
    }
    if (fate.refused) {
      const refusal = new LockkeeperError('limit-exceeded', 'too many requests');
      network.carry(this.clock.name, fate, fate.requestMs, () => back('limit-exceeded', () => fail(refusal)));
      return;
    }
    network.carry(this.clock.name, fate, fate.requestMs, () => etcd.receive(request));
    if (fate.duplicateMs === undefined || call.once === true) return;
    // The network answers the first copy only, and by then has no other left: no client asked for more.
    const laterMs = fate.loseReply ? fate.duplicateMs : Math.min(fate.duplicateMs, fate.replyMs / 2);
    network.carry(this.clock.name, fate, fate.requestMs + laterMs, () =>
      etcd.receive({ ...request, ...UNANSWERED }),
    );
  }
}

function unreachable(
  { verb }: Described,
  why: string,
  outcome: 'rejected' | 'unknown' = 'unknown',
): LockkeeperError {
  return new LockkeeperError('unreachable', `${verb}: no answer (${why})`, { outcome });
}

function closedError(outcome: 'rejected' | 'unknown'): LockkeeperError {
  return new LockkeeperError('closed', 'simulated connection: closed', { outcome });
}
