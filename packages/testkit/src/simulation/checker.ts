import type { ReleaseAnswer } from '@lockkeeper/core';
import type { FencingToken } from '@lockkeeper/fencing';
import { AcquireRules, type Attempt, type Seat } from './acquire-rules.ts';
import { DelayRules } from './delay-rules.ts';
import type { SimulatedEtcd } from './etcd.ts';
import type { Held } from './held.ts';
import { HoldRules, mayBeGivenBack, PROMPT_MS } from './hold-rules.ts';
import type { Observer } from './observer.ts';
import { OnlookerRules } from './onlooker-rules.ts';
import { PermitRules } from './permit-rules.ts';
import type { SimulatedProcess } from './process.ts';
import { ProclaimRules } from './proclaim-rules.ts';
import { CANDIDATES, type Contender, MARKS } from './queues.ts';
import { RequestRules } from './request-rules.ts';
import { SessionRules } from './session-rules.ts';
import type { GuardedWrite, Resource, StorageListener } from './storage.ts';
import { StorageRules } from './storage-rules.ts';
import type { AnyHold } from './target.ts';
import type { World } from './world.ts';

/** What a simulation found: a promise that was broken. */
export interface Violation {
  readonly kind: string;
  readonly message: string;
  /** True time, in milliseconds since the beginning. */
  readonly atMs: number;
}

/**
 * Within this time the first of a queue is granted while what was disturbed settles: less than the 15 s
 * after which waiters look without being told.
 */
const PATIENT_MS = 12_000;

/**
 * Holds everything that happens against what the protocol promises. It looks at the truth in etcd and at
 * what clients believe, after every step; the first contradiction is kept.
 */
export class Checker implements StorageListener {
  violation: Violation | undefined;
  readonly acquiring: AcquireRules;
  readonly holding: HoldRules;
  readonly storage: StorageRules;
  readonly proclaiming: ProclaimRules;
  readonly looking: OnlookerRules;
  readonly delays: DelayRules;
  readonly requests: RequestRules;
  readonly sessions: SessionRules;
  readonly #world: World;
  readonly #etcd: SimulatedEtcd;
  readonly #observer: Observer;
  readonly #calm: boolean;
  #healedAt: number | undefined;

  /**
   * @param calm - nothing disturbs the clients: then they are held to more.
   * @param lockDelayMs - of everybody who asks for one.
   */
  constructor(world: World, etcd: SimulatedEtcd, observer: Observer, calm: boolean, lockDelayMs: number) {
    this.#world = world;
    this.#etcd = etcd;
    this.#observer = observer;
    this.#calm = calm;
    const report = (kind: string, message: string) => this.report(kind, message);
    this.acquiring = new AcquireRules(observer, report);
    this.holding = new HoldRules(world, observer, calm, report);
    this.storage = new StorageRules(report);
    this.proclaiming = new ProclaimRules(observer, report);
    this.looking = new OnlookerRules(observer, etcd, report);
    this.delays = new DelayRules(observer, lockDelayMs, report);
    observer.onMark = (owner, before) =>
      this.delays.onMark(owner, before, world.now, (held) => {
        return held.settledAt !== undefined || held.attempt.seat.closing || mayBeGivenBack(held);
      });
    this.requests = new RequestRules(report);
    this.sessions = new SessionRules(etcd, report);
    observer.onRequest = (acquisition, request) => this.requests.onRequest(acquisition, request, world.now);
    const permits = new PermitRules(report);
    observer.onLimit = (...limit) => permits.onLimit(...limit);
    observer.onSemaphore = (change) => permits.onChange(change);
    observer.onRemoved = (contender, actor) => this.holding.onRemoved(contender, actor);
    observer.onRewritten = (contender, value) => {
      if (contender.queue.startsWith('election/')) this.proclaiming.wrote(contender, value);
      else this.holding.onRewritten(contender);
    };
    observer.onDataWrite = (write) => this.storage.wroteToEtcd(write, (grant) => observer.isIntact(grant));
  }

  report(kind: string, message: string): void {
    this.violation ??= { kind, message, atMs: this.#world.now };
  }

  healed(): void {
    this.#healedAt = this.#world.now;
  }

  granted(attempt: Attempt, hold: AnyHold): Held {
    this.acquiring.ended(attempt);
    const held = this.holding.onGranted(attempt, hold);
    this.#mustBeClaimed(held, attempt.visit.target.kind === 'read');
    this.delays.granted(held, this.#world.now);
    return held;
  }

  downgraded(held: Held): void {
    this.holding.onDowngraded(held);
    this.#mustBeClaimed(held, true);
  }

  #mustBeClaimed({ attempt, resources, hold }: Held, reads: boolean): void {
    if (attempt.visit.claims)
      for (const each of resources) this.storage.mustBeClaimed(each, hold.token, reads);
  }

  /** Its work has ended. */
  settle(held: Held): void {
    held.settledAt ??= this.#world.now;
  }

  released(held: Held, answer: ReleaseAnswer): void {
    const { visit } = held.attempt;
    if (visit.claims && answer.sealed === true)
      for (const each of held.resources) this.storage.mustBeSealed(each, held.hold.token);
    if (answer.outcome === 'released') this.delays.released(held);
    this.holding.onReleased(held, answer);
  }

  /** After every step. */
  look(): void {
    this.holding.look();
    if (this.#calm) this.#lookForDelay(0, PROMPT_MS);
    else if (this.#healedAt !== undefined) this.#lookForDelay(this.#healedAt, PATIENT_MS);
  }

  /** A keeper has closed: nothing of it may be left. */
  closed(process: SimulatedProcess, { connection }: Seat): void {
    const { pendingCalls, openWatches } = connection;
    if (pendingCalls === 0 && openWatches === 0) return;
    this.report(
      'leak',
      `${process.name} closed its keeper, but ${pendingCalls} calls and ${openWatches} watches are open`,
    );
  }

  /** All work is done, the keepers are still open. */
  nothingQueued(): void {
    for (const { key, acquisition } of this.#observer.contenders.values()) {
      this.report('leaked-key', `${key} (of ${acquisition}) is left although nobody holds or waits`);
    }
    for (const key of this.#observer.keys) {
      if (key.startsWith(CANDIDATES))
        this.report('leaked-key', `${key} is left although nobody is a candidate`);
    }
    for (const { name } of this.acquiring.processes) {
      const kept = [...this.#etcd.leases].filter(
        ([lease, owner]) => owner === name && this.#etcd.isAlive(lease),
      );
      if (kept.length > 1)
        this.report('leaked-lease', `${name} keeps ${kept.length} leases although it holds nothing`);
    }
    this.looking.allTold();
  }

  /** All keepers are closed, and every lease that nobody renews has run out. */
  nothingLeft(): void {
    for (const key of this.#observer.keys) {
      const stays =
        key === 'lockkeeper/lineage' ||
        key.startsWith('data/') ||
        key.endsWith('/limit') ||
        key.startsWith(MARKS);
      if (!stays) this.report('leaked-key', `${key} is left at the end`);
    }
    for (const { name, pendingTimers } of this.acquiring.processes) {
      if (pendingTimers > 0) this.report('leak', `${name} has ${pendingTimers} timers left at the end`);
    }
    if (this.#etcd.process.pendingTimers > 0) this.report('leaked-lease', 'a lease is left at the end');
  }

  onClaimed(resource: Resource, token: FencingToken, reads: boolean): void {
    this.storage.claimed(resource.name, token, reads);
  }

  onSealed(resource: Resource, token: FencingToken, reads: boolean): void {
    this.storage.sealed(resource.name, token, reads);
  }

  onRead(resource: Resource, token: FencingToken): void {
    this.storage.read(resource.name, token);
  }

  onPresented(resource: Resource, token: FencingToken, reads: boolean): void {
    this.storage.presented(resource.name, token, reads);
  }

  onStale(resource: Resource, token: FencingToken, reads: boolean): void {
    this.storage.stale(resource.name, token, reads);
  }

  onWrite(resource: Resource, write: GuardedWrite): void {
    this.storage.wrote(resource, write);
  }

  #lookForDelay(undisturbedSince: number, limit: number): void {
    this.#lookForStandstill(undisturbedSince, limit);
    this.looking.look(this.#world.now, undisturbedSince, limit);
    this.requests.look(this.#world.now, undisturbedSince, limit);
  }

  /**
   * Where nothing is disturbed (any more), the first of a queue is granted soon, or gone; and a key that was
   * overwritten is gone soon after its loss was told.
   */
  #lookForStandstill(undisturbedSince: number, limit: number): void {
    for (const contender of this.#observer.contenders.values()) {
      const { lease, queue } = contender;
      const owner = this.acquiring.processNamed(this.#etcd.leases.get(lease));
      if (owner === undefined || !owner.isRunning) continue;
      const ripeAt = Math.max(this.#ripeSince(contender), this.#overSince(contender));
      const since = Math.max(ripeAt, undisturbedSince, owner.runningSince);
      if (this.#world.now - since < limit) continue;
      this.report(
        'standstill',
        `${queue}: a key of ${owner.name} could be granted or gone for ${limit} ms, and is not`,
      );
    }
  }

  /** Since when its party is first everywhere, or spoilt while its lease lives. */
  #ripeSince(contender: Contender): number {
    const { lease, party } = contender;
    const spoiltAt = this.#observer.tamperingWith({ keys: party.map(({ id }) => id) })?.at;
    if (spoiltAt !== undefined) return this.#etcd.isAlive(lease) ? spoiltAt : Number.POSITIVE_INFINITY;
    return Math.max(...party.map(({ headSince }) => headSince ?? Number.POSITIVE_INFINITY));
  }

  /** When the hold of this key was over: not yet, if it stands; if it was never granted, when its lock-delay was. */
  #overSince(contender: Contender): number {
    const held = this.holding.of(contender);
    if (held === undefined) return this.delays.owesUntil(contender);
    // A clock that is slow counts longer.
    if (held.settledAt !== undefined) return held.settledAt + held.attempt.visit.minHoldMs * 1.1;
    return held.lostAt ?? Number.POSITIVE_INFINITY;
  }
}
