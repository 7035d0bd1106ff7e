import type { WatchHandler, WatchRequest } from '@lockkeeper/core';
import type { MemoryStore } from '@lockkeeper/core/memory';
import type { Fate } from './network.ts';
import { SimulatedProcess } from './process.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** What a server can be asked to do. */
export interface EtcdRequest {
  readonly from: string;
  readonly fate: Fate;
  /** Set for renewals, which a leader that was deposed still answers for a moment. */
  readonly renews?: bigint | undefined;
  /** Set for grants. */
  readonly grants?: bigint | undefined;
  readonly revokes?: bigint | undefined;
  readonly apply: (store: MemoryStore) => unknown;
  readonly succeed: (reply: unknown) => void;
  readonly fail: (error: unknown) => void;
  /** Nothing listens. */
  readonly refuse: () => void;
}

/** How long a leader that lost its quorum goes on to answer renewals. */
const DEPOSED_MS = 1_000;

/**
 * The etcd cluster as its clients see it: a state machine that sometimes does not answer, on a clock of its
 * own. Leases get their full time again when it comes back from a restart or an election.
 */
export class SimulatedEtcd {
  /** Its clock; stopped, nothing expires. */
  readonly process: SimulatedProcess;
  readonly store: MemoryStore;
  /** On whose behalf the store is changing; `expiry` where nobody asked. */
  actor = 'expiry';
  /** Every lease ever granted, and to whom. */
  readonly leases = new Map<bigint, string>();
  /** A watch that begins before this revision is refused. */
  compactedTo = 0n;
  readonly #world: World;
  readonly #streams = new Set<() => void>();
  /** By client. */
  readonly #onNextLease = new Map<string, (lease: bigint) => void>();
  #waiting: EtcdRequest[] = [];
  #mode: 'serving' | 'stopped' | 'down' | 'leaderless' = 'serving';
  #since = 0;
  /** Until when a lease lives, on the cluster's own clock, and for how long it was granted. */
  readonly #lives = new Map<bigint, { readonly until: number; readonly ttlMs: number }>();

  constructor(world: World, random: Random, makeStore: (clock: SimulatedProcess) => MemoryStore) {
    this.#world = world;
    this.process = new SimulatedProcess(world, 'etcd', random, 1);
    this.store = makeStore(this.process);
  }

  get isServing(): boolean {
    return this.#mode === 'serving';
  }

  /** Whether a lease of a client lives. */
  isAlive(lease: bigint): boolean {
    return (this.#lives.get(lease)?.until ?? 0) > this.process.now();
  }

  receive(request: EtcdRequest): void {
    switch (this.#mode) {
      case 'serving':
        this.#serve(request);
        break;
      case 'stopped':
        this.#waiting.push(request);
        break;
      case 'down':
        request.refuse();
        break;
      case 'leaderless':
        this.#withoutLeader(request);
        break;
    }
  }

  /** What an operator or another program does, which no network disturbs. */
  outside<T>(actor: string, act: (store: MemoryStore) => T): T {
    this.#expireLeases();
    this.actor = actor;
    try {
      return act(this.store);
    } finally {
      this.actor = 'expiry';
    }
  }

  revokeOutside(actor: string, lease: bigint): void {
    this.outside(actor, (store) => store.revoke(lease));
    this.#lives.delete(lease);
  }

  /** Calls `act` in the moment after the client's next lease was granted, before the client knows. */
  onNextLease(client: string, act: (lease: bigint) => void): void {
    this.#onNextLease.set(client, act);
  }

  grantOutside(lease: bigint, ttlMs: number): void {
    this.store.grant({ lease, ttlMs });
    this.leases.set(lease, 'outside');
  }

  watch(request: WatchRequest, handler: WatchHandler): () => void {
    return this.store.watch(request, handler);
  }

  /** `broken` is called when the server drops its streams. Returns how to leave. */
  onStreamsBroken(broken: () => void): () => void {
    this.#streams.add(broken);
    return () => this.#streams.delete(broken);
  }

  /** As by SIGSTOP: it answers late, and what expired meanwhile, expires then. */
  stop(ms: number): void {
    this.#outage('stopped', ms, false);
  }

  restart(downMs: number): void {
    this.#outage('down', downMs, true);
  }

  loseLeader(ms: number): void {
    this.#outage('leaderless', ms, true);
  }

  compact(back: number): void {
    const { revision } = this.store;
    const wanted = revision - BigInt(back);
    const to = wanted > 1n ? wanted : 1n;
    this.store.compact(to);
    if (to > this.compactedTo) this.compactedTo = to;
  }

  #outage(mode: 'stopped' | 'down' | 'leaderless', ms: number, renewsLeases: boolean): void {
    if (this.#mode !== 'serving') return;
    this.#mode = mode;
    this.#since = this.#world.now;
    this.process.stop({ suspend: renewsLeases });
    if (mode === 'down') for (const broken of [...this.#streams]) broken();
    this.#world.after(ms, () => {
      this.#mode = 'serving';
      this.process.resume({ suspend: renewsLeases });
      if (renewsLeases) this.#renewAll();
      const waiting = this.#waiting.splice(0);
      for (const request of waiting) this.#world.after(0, () => this.receive(request));
    });
  }

  #renewAll(): void {
    for (const lease of this.leases.keys()) {
      // Two leases never run out at the very same moment: their order would be left to their random ids.
      this.process.nudge(0.001);
      this.#noteRenewal(lease, this.store.renew(lease).ttlMs);
    }
  }

  /** What is due goes by itself, not on behalf of whoever asks next. */
  #expireLeases(): void {
    void this.store.revision;
  }

  #serve(request: EtcdRequest): void {
    this.#expireLeases();
    this.actor = request.from;
    try {
      const reply = request.apply(this.store);
      this.#note(request, reply);
      request.succeed(reply);
      if (request.grants !== undefined) this.#granted(request.grants, request.from);
    } catch (error) {
      request.fail(error);
    } finally {
      this.actor = 'expiry';
    }
  }

  #note({ grants, renews, revokes, from }: EtcdRequest, reply: unknown): void {
    if (revokes !== undefined) this.#lives.delete(revokes);
    if (grants !== undefined) this.leases.set(grants, from);
    const lease = grants ?? renews;
    if (lease === undefined) return;
    const { ttlMs } = reply as { readonly ttlMs: number };
    this.#noteRenewal(lease, ttlMs);
  }

  #granted(lease: bigint, client: string): void {
    const act = this.#onNextLease.get(client);
    this.#onNextLease.delete(client);
    act?.(lease);
  }

  #noteRenewal(lease: bigint, ttlMs: number): void {
    if (ttlMs > 0) this.#lives.set(lease, { until: this.process.now() + ttlMs, ttlMs });
    else this.#lives.delete(lease);
  }

  #withoutLeader(request: EtcdRequest): void {
    const { renews } = request;
    const isDeposed = this.#world.now - this.#since < DEPOSED_MS;
    if (isDeposed && renews !== undefined && this.isAlive(renews)) {
      request.succeed({ ttlMs: this.#lives.get(renews)?.ttlMs });
    } else if (request.fate.coin < 0.5) this.#waiting.push(request);
  }
}
