import { nextTick } from 'node:process';
import type { Timer } from '../../clock.ts';
import { LockkeeperError, type LockkeeperErrorCode } from '../../errors.ts';
import { duration } from '../../validation.ts';
import type { CallOptions, Coordinator, Txn, TxnReply } from '../coordinator.ts';
import { Batch, joined, MOST_MEMBERS, replyOf } from './batch.ts';
import { footprintOf, Ground, withOwnBytes } from './footprint.ts';
import { Flight, Member } from './member.ts';

/** While so many are on their way, transactions wait and gather: a third batch would only be a smaller one. */
const MOST_IN_FLIGHT = 2;
/** Batches on their way where waiting would gather nothing, since what waits touches the same keys. */
const MOST_IN_FLIGHT_OF_ONE_NAME = 16;
/** How far the forming of a batch looks past those that do not fit into it. */
const MOST_PASSED_OVER = 128;
/** For how long batches stay smaller after etcd refused one for its size, or for the load. */
const SMALLER_FOR_MS = 30_000;
const LONGEST_PAUSE_MS = 1_000;

/** Refusals that say nothing of any one member: all would meet the same. */
const OF_ALL: ReadonlySet<LockkeeperErrorCode> = new Set(['unreachable', 'closed', 'unauthenticated']);

/**
 * Group commit: passes everything on, and sends transactions of one turn of the event loop, or that gathered while
 * others were on their way, as one. A batch costs the client one call and etcd one proposal, whatever its size; one
 * transaction alone is sent as it is, at the end of the turn.
 *
 * To its caller a transaction is what it is without this: it settles within its own time, heeds its own signal, and
 * fails for reasons of its own. A refused batch changed nothing, and is taken apart until it is known whom the refusal
 * is for. A batch whose reply is lost is unknown to each of its members.
 *
 * First come, first served: none is overtaken by another that touches the same keys. The contenders for one lock stand
 * in a lane of their own, one of them in the common queue: whoever gives that lock back need not wait for those who want
 * it, and others are not held up by a crowd.
 */
export class GroupCommit implements Coordinator {
  readonly #inner: Coordinator;
  readonly #callTimeoutMs: number;
  #queue: Member[] = [];
  /** Behind the one in the queue that has the same lane, so that nobody has to look at them before their time. */
  readonly #lanes = new Map<string, Member[]>();
  /** What is left of refused batches, to be sent as it stands. */
  readonly #parts: Member[][] = [];
  /** Members that their signal and their time may end. */
  readonly #waiting = new Set<Member>();
  #newcomers: Member[] = [];
  #inFlight = 0;
  #endOfTurn = false;
  #most = MOST_MEMBERS;
  #smallerSince = 0;
  /** In a row. */
  #refusals = 0;
  #pause: Timer | undefined;
  #timer: Timer | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #closed = false;

  /** @param callTimeoutMs - the limit of calls that name none. */
  constructor(inner: Coordinator, callTimeoutMs: number) {
    this.#inner = inner;
    this.#callTimeoutMs = callTimeoutMs;
  }

  get clock(): Coordinator['clock'] {
    return this.#inner.clock;
  }

  readonly endpoints: Coordinator['endpoints'] = () => this.#inner.endpoints();
  readonly describe: Coordinator['describe'] = (options) => this.#inner.describe(options);
  readonly grant: Coordinator['grant'] = (request, options) => this.#inner.grant(request, options);
  readonly renew: Coordinator['renew'] = (lease, options) => this.#inner.renew(lease, options);
  readonly timeToLive: Coordinator['timeToLive'] = (lease, options) => this.#inner.timeToLive(lease, options);
  readonly revoke: Coordinator['revoke'] = (lease, options) => this.#inner.revoke(lease, options);
  readonly range: Coordinator['range'] = (range, options) => this.#inner.range(range, options);
  readonly watch: Coordinator['watch'] = (request, handler) => this.#inner.watch(request, handler);

  txn(txn: Txn, options: CallOptions = {}): Promise<TxnReply> {
    try {
      const footprint = footprintOf(txn);
      const { signal, timeoutMs = this.#callTimeoutMs } = options;
      // A read may be asked of several members of etcd within its time, and needs no proposal: it stays a read.
      if (footprint.writes.length === 0 || this.#closed || signal?.aborted)
        return this.#inner.txn(txn, options);
      const until = this.clock.now() + duration('timeoutMs', timeoutMs, { min: 0 });
      const own = footprint.hasBytes ? withOwnBytes(txn) : txn;
      const member = new Member(own, footprint, until, options, this.#onSettled);
      this.#newcomers.push(member);
      this.#enter(member);
      this.#proceed();
      return member.reply;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** What was not sent yet is rejected, the rest as the coordinator below ends it. */
  close(): Promise<void> {
    this.#closed = true;
    this.#pause?.cancel();
    this.#timer?.cancel();
    const unsent = [this.#queue, ...this.#lanes.values(), ...this.#parts].flat();
    this.#queue = [];
    this.#lanes.clear();
    this.#parts.length = 0;
    for (const member of unsent) member.fail(closedError());
    return this.#inner.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #enter(member: Member): void {
    const { lane } = member.footprint;
    const line = lane === undefined ? undefined : this.#lanes.get(lane);
    if (line !== undefined) {
      line.push(member);
      return;
    }
    if (lane !== undefined) this.#lanes.set(lane, []);
    this.#queue.push(member);
  }

  /** One has left the queue: who is behind it in its lane comes into it. */
  #follow({ footprint: { lane } }: Member): void {
    const line = lane === undefined ? undefined : this.#lanes.get(lane);
    if (lane === undefined || line === undefined) return;
    let next = line.shift();
    while (next?.isSettled) next = line.shift();
    if (next === undefined) {
      this.#lanes.delete(lane);
      return;
    }
    next.wasPassedOver = true;
    this.#queue.push(next);
  }

  readonly #onSettled = (member: Member): void => {
    this.#waiting.delete(member);
    member.flight?.leave();
  };

  /** At once where a batch is full; else at the end of the turn, when all that the turn brings has come. */
  #proceed(): void {
    if (this.#queue.length >= this.#most && this.#maySend()) this.#sendAll();
    if (this.#endOfTurn || this.#newcomers.length + this.#queue.length + this.#parts.length === 0) return;
    this.#endOfTurn = true;
    // Node runs ticks only when no microtask is left.
    void Promise.resolve().then(() =>
      nextTick(() => {
        this.#endOfTurn = false;
        this.#sendAll();
      }),
    );
  }

  #sendAll(): void {
    while (this.#maySend()) void this.#send(this.#parts.shift() ?? this.#takeBatch());
    for (const member of this.#newcomers) if (!member.isSent) this.#await(member);
    this.#newcomers = [];
  }

  #maySend(): boolean {
    if (this.#pause !== undefined || this.#closed) return false;
    const [next] = this.#parts[0] ?? this.#queue;
    if (next === undefined) return false;
    const isHeldUp = this.#parts.length > 0 || next.wasPassedOver;
    return this.#inFlight < (isHeldUp ? MOST_IN_FLIGHT_OF_ONE_NAME : MOST_IN_FLIGHT);
  }

  /** The first of the queue, and all that may go with it. */
  #takeBatch(): readonly Member[] {
    if (this.clock.now() - this.#smallerSince >= SMALLER_FOR_MS) this.#most = MOST_MEMBERS;
    const batch = new Batch<Member>(this.#most);
    const left: Member[] = [];
    const gone: Member[] = [];
    const before = new Ground();
    let at = 0;
    for (; at < this.#queue.length && !batch.isFull && left.length < MOST_PASSED_OVER; at += 1) {
      const member = this.#queue[at] as Member;
      if (member.signal?.aborted) member.fail(member.signal.reason);
      if (member.isSettled) {
        gone.push(member);
        continue;
      }
      const { footprint } = member;
      const conflicts =
        batch.members.length > 0 && (batch.conflictsWith(footprint) || before.conflictsWith(footprint));
      if (!conflicts && batch.fits(footprint)) {
        batch.take(member);
        continue;
      }
      member.wasPassedOver ||= conflicts;
      before.add(footprint);
      left.push(member);
    }
    this.#queue.splice(0, at, ...left);
    for (const member of gone) this.#follow(member);
    for (const member of batch.members) this.#follow(member);
    return batch.members;
  }

  async #send(batch: readonly Member[]): Promise<void> {
    const members = batch.filter(({ isSettled }) => !isSettled);
    const [first] = members;
    if (first === undefined) return;
    this.#inFlight += 1;
    for (const member of members) member.isSent = true;
    try {
      if (members.length === 1) await this.#sendAlone(first);
      else await this.#sendTogether(members);
    } finally {
      this.#inFlight -= 1;
      this.#proceed();
    }
  }

  async #sendAlone(member: Member): Promise<void> {
    const { txn, signal, until } = member;
    try {
      member.succeed(await this.#inner.txn(txn, { signal, timeoutMs: this.#leftUntil(until) }));
      this.#refusals = 0;
    } catch (error) {
      // One that is too large by itself is no sign of load.
      const isSlow = this.#most < MOST_MEMBERS;
      if (isSlow && isRefusal(error) && error.code === 'limit-exceeded') this.#goSlower(1);
      member.fail(error);
    }
  }

  async #sendTogether(members: readonly Member[]): Promise<void> {
    const flight = new Flight(members.length);
    let until = 0;
    for (const member of members) {
      until = Math.max(until, member.until);
      member.flight = flight;
      this.#await(member);
    }
    try {
      const call = { signal: flight.scope, timeoutMs: this.#leftUntil(until) };
      const reply = await this.#inner.txn(joined(members), call);
      this.#refusals = 0;
      for (const [at, member] of members.entries()) {
        member.flight = undefined;
        const own = replyOf(reply, at);
        if (own === undefined) member.fail(new LockkeeperError('unexpected-reply', 'txn: not in the reply'));
        else member.succeed(own);
      }
    } catch (error) {
      for (const member of members) member.flight = undefined;
      this.#takeApart(members, error);
    }
  }

  /** What the failure of a batch means for each member. */
  #takeApart(members: readonly Member[], error: unknown): void {
    const left = members.filter(({ isSettled }) => !isSettled);
    if (this.#closed) {
      // What was refused had no effect, and nothing is sent any more.
      this.#tell(left, isRefusal(error) ? closedError() : error, members.length);
      return;
    }
    if (!isRefusal(error) || OF_ALL.has(error.code)) {
      this.#tell(left, error, members.length);
      return;
    }
    for (const member of left) member.isSent = false;
    if (error.code === 'limit-exceeded') {
      this.#goSlower(members.length);
      this.#queue = [...left, ...this.#queue];
      return;
    }
    // Those of members that have been given up too: it may be their lease that is dead.
    const leases = new Set(members.flatMap(({ footprint }) => footprint.leases));
    if (error.code === 'lease-not-found' && leases.size === 1) {
      const [dead, others] = partition(left, ({ footprint }) => footprint.leases.length > 0);
      this.#tell(dead, error, members.length);
      if (others.length > 0) this.#parts.push(others);
      return;
    }
    // Those of one lease side by side: it may be the lease that is the matter.
    const sorted = left.toSorted((a, b) =>
      Number((a.footprint.leases[0] ?? 0n) - (b.footprint.leases[0] ?? 0n)),
    );
    const middle = Math.ceil(sorted.length / 2);
    this.#parts.push(...[sorted.slice(0, middle), sorted.slice(middle)].filter(({ length }) => length > 0));
  }

  #tell(members: readonly Member[], error: unknown, of: number): void {
    for (const member of members) member.fail(error instanceof LockkeeperError ? inBatch(error, of) : error);
  }

  /** etcd is overloaded, or takes less than its defaults say: smaller batches for a while, and none for a moment. */
  #goSlower(refused: number): void {
    const { clock } = this;
    if (refused > 1) {
      this.#most = Math.ceil(refused / 2);
      this.#smallerSince = clock.now();
    }
    const pauseMs = Math.min(50 * 2 ** this.#refusals, LONGEST_PAUSE_MS) * (0.75 + clock.random() / 4);
    this.#refusals += 1;
    this.#pause?.cancel();
    this.#pause = clock.setTimer(pauseMs, () => {
      this.#pause = undefined;
      this.#sendAll();
    });
  }

  #leftUntil(until: number): number {
    return Math.max(0, until - this.clock.now());
  }

  #await(member: Member): void {
    if (member.isSettled || this.#waiting.has(member)) return;
    this.#waiting.add(member);
    member.heedSignal();
    this.#lookAt(member.until);
  }

  /** One timer for all. Whoever waits here waits for a call in flight, or a pause, which keep the process alive. */
  #lookAt(time: number): void {
    if (time >= this.#timerAt) return;
    this.#timer?.cancel();
    this.#timerAt = time;
    this.#timer = this.clock.setTimer(this.#leftUntil(time), () => this.#endOverdue(), { ref: false });
  }

  #endOverdue(): void {
    const now = this.clock.now();
    this.#timerAt = Number.POSITIVE_INFINITY;
    let next = Number.POSITIVE_INFINITY;
    for (const member of this.#waiting) {
      if (member.until <= now) member.fail(outOfTime(member.isSent));
      else next = Math.min(next, member.until);
    }
    if (next < Number.POSITIVE_INFINITY) this.#lookAt(next);
  }
}

function isRefusal(error: unknown): error is LockkeeperError {
  return error instanceof LockkeeperError && error.outcome === 'rejected';
}

function closedError(): LockkeeperError {
  return new LockkeeperError('closed', 'the coordinator was closed');
}

/** An error of its own for each: callers may add to theirs. */
function inBatch(cause: LockkeeperError, of: number): LockkeeperError {
  const { code, outcome, message } = cause;
  return new LockkeeperError(code, `${message} (in a batch of ${of})`, { cause, outcome });
}

function outOfTime(isSent: boolean): LockkeeperError {
  return isSent
    ? new LockkeeperError('unreachable', 'txn: no answer in time')
    : new LockkeeperError('unreachable', 'txn: not sent in time, behind others', { outcome: 'rejected' });
}

function partition<T>(all: readonly T[], test: (each: T) => boolean): [T[], T[]] {
  return [all.filter(test), all.filter((each) => !test(each))];
}
