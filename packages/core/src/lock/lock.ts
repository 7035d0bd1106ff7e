import type { Clock } from '../clock.ts';
import type { KeyValue, Operation } from '../coordinator/coordinator.ts';
import { checkTtl } from '../options.ts';
import type { Session } from '../session/session.ts';
import { AbortScope, type AbortSignalLike, within } from '../signals.ts';
import { publish } from '../telemetry.ts';
import { checkObject, invalidOption } from '../validation.ts';
import {
  type AcquireOptions,
  type Attempt,
  type LockOptions,
  type RequestReleaseOptions,
  resolveAttempt,
  resolveRequest,
  type TryAcquireOptions,
} from './acquire-options.ts';
import { Acquisition, type Contender, type LockTarget, readContender, titleOf } from './acquisition.ts';
import { BackOff } from './back-off.ts';
import { claimAll } from './claims.ts';
import { endAcquisition } from './ending.ts';
import { type Enqueued, type EnqueueMode, enqueue } from './enqueue.ts';
import { Hold, type HoldOptions } from './hold.ts';
import { observeLockDelay } from './lock-delay.ts';
import type { LockHost } from './lock-host.ts';
import { findHolders } from './queue-view.ts';
import { formatRequest } from './release-request.ts';
import { Wait, waitTimeout } from './wait.ts';
import { seeTurn, waitTurn } from './wait-turn.ts';

/** Each needs two operations of one transaction. */
const MOST_DELAYED = 50;

/** How long a failed acquire waits until its key is gone before it tells; after that it goes on behind. */
const GONE_WITHIN_MS = 1_000;

/** The hold, or who has it instead (`undefined` where it was released in that moment). */
export type TryAcquired<H extends Hold = Hold> =
  | { readonly hold: H; readonly holder?: undefined }
  | { readonly hold?: undefined; readonly holder: Contender | undefined };

/** Somebody else has it, and a try does not wait. */
type Taken = Extract<TryAcquired, { readonly hold?: undefined }>;

/**
 * A fair mutual-exclusion lock: contenders are granted in the order in which etcd saw them queue, across
 * processes and languages (`etcdctl lock` and Go's `concurrency.Mutex` queue with them).
 *
 * By itself it is an optimisation, not a safeguard: a holder that is paused past its lease does not know
 * that it lost the lock until it looks. Pair it with a guard wherever two writers at once do harm.
 */
export class Lock<H extends Hold = Hold> {
  readonly name: string;
  readonly #target: LockTarget;
  readonly #host: LockHost;
  /** Of a lease for each hold; `undefined`: they share the keeper's. */
  readonly #ownTtlMs: number | undefined;

  /** @internal */
  constructor(target: LockTarget, host: LockHost, options: LockOptions) {
    checkObject('options', options);
    const { isolated = options.ttlMs !== undefined } = options;
    if (typeof isolated !== 'boolean') throw invalidOption('isolated', isolated, 'expected a boolean');
    const ttlMs = checkTtl(options.ttlMs ?? host.options.ttlMs, host.options.marginMs);
    if (options.ttlMs !== undefined && !isolated)
      throw invalidOption('isolated', isolated, `a lease with ttlMs ${ttlMs} of its own is isolated`);
    this.#ownTtlMs = isolated ? ttlMs : undefined;
    this.name = target.name;
    this.#target = target;
    this.#host = host;
  }

  /**
   * Queues for the lock and resolves when it is ours and every guard of `claims` has promised.
   *
   * While etcd cannot be reached this goes on trying: until `waitTimeoutMs`, and else for 5 s to open a session
   * and for as long as that session stands.
   *
   * @throws {@link LockkeeperError} `wait-timeout`, `unreachable` (etcd did not answer, so we could not even
   * queue), `lost-while-waiting` (our lease or key is gone: acquire again), `claim-timeout`, `claim-failed`,
   * `not-reentrant`, `closed`, `permission-denied`, `storage-full`; or `signal.reason`, untouched. After any
   * of them nothing is left in the queue. A failure waits up to 1 s for that; where the caller gave up, or
   * etcd cannot be reached, it is seen to in the background.
   */
  acquire(options: AcquireOptions = {}): Promise<H> {
    if (options?.waitTimeoutMs === 0) return this.#acquireAtOnce(options);
    // Whoever waits never finds it taken.
    return this.#attempt('queue', options) as Promise<H>;
  }

  /**
   * Takes the lock if nobody holds it or queues for it, in one round trip; never waits in line. While etcd
   * cannot be reached it goes on trying for 5 s.
   * @throws {@link LockkeeperError} as `acquire` does, or `signal.reason`.
   */
  async tryAcquire(options: TryAcquireOptions = {}): Promise<TryAcquired<H>> {
    const taken = await this.#attempt('try', options);
    return taken instanceof Hold ? { hold: taken } : taken;
  }

  /**
   * Runs `work` while holding the lock, and gives it back whatever happens.
   *
   * The error of `work` always wins; if the lock was lost as well, that error is attached to it as
   * `lockError`. If `work` succeeded but the lock was lost meanwhile, this rejects with `lost`, and the
   * error's `result` is what `work` returned. A release that fails never turns success into failure.
   *
   * @throws what `work` throws, or what `acquire` throws.
   */
  async using<T>(options: AcquireOptions, work: (hold: H) => T | PromiseLike<T>): Promise<T> {
    if (typeof work !== 'function')
      throw invalidOption('work', work, 'expected a function: using(options, work), with {} for no options');
    const hold = await this.acquire(options);
    return this.#host.surroundings.run(hold, work);
  }

  /**
   * Asks whoever holds the lock to let go. It reaches the holder as an event on its hold, if it listens
   * (`hold.onReleaseRequested`), and it may ignore it: nothing is taken away. The request ends with the hold.
   *
   * Handing the lock to a chosen waiter is not offered: it would break the order that everybody else waits in.
   *
   * @returns how many holders were asked: none where the lock is free or held by a program that cannot be asked, more
   * than one for the readers of a read/write lock and for a set.
   * @throws {@link LockkeeperError} `invalid-option`, `unreachable`, `permission-denied`, `closed`.
   */
  async requestRelease(options: RequestReleaseOptions): Promise<{ readonly asked: number }> {
    const request = resolveRequest(options, this.#host.options.identity);
    const { coordinator } = this.#host.options;
    using scope = new AbortScope().follow(this.#host.closing);
    const { signal } = scope;
    const holders = await findHolders(coordinator, this.#target.queues, { signal });
    if (holders.length === 0) return { asked: 0 };
    const success = holders.map(({ acquisition, kv }) =>
      ask(kv, this.#host.layout.request(acquisition), formatRequest(request)),
    );
    const { results } = await coordinator.txn({ compare: [], success, failure: [] }, { signal });
    return { asked: results.filter((result) => result.op === 'txn' && result.succeeded).length };
  }

  #resolve(options: AcquireOptions): Attempt {
    const attempt = resolveAttempt(options);
    const { queues } = this.#target;
    const { lockDelayMs } = attempt;
    if (lockDelayMs === undefined) return attempt;
    // One mark would have to stand for all of them.
    if (queues.some(({ writers }) => writers !== undefined))
      throw invalidOption('lockDelayMs', lockDelayMs, 'not for a read/write lock: its readers hold together');
    if (queues.length <= MOST_DELAYED) return attempt;
    const why = `a lock-delay for ${queues.length} locks at once; at most ${MOST_DELAYED}`;
    throw invalidOption('lockDelayMs', lockDelayMs, why);
  }

  async #acquireAtOnce(options: AcquireOptions): Promise<H> {
    this.#host.surroundings.refuseIfHeld(this.#target.queues);
    const taken = await this.#attempt('try', options);
    if (taken instanceof Hold) return taken;
    const { holder } = taken;
    const where = holder === undefined ? 'held' : `held by ${holder.identity ?? holder.key}`;
    throw waitTimeout(titleOf(this.#target), 0, where);
  }

  /**
   * Until a hold is granted, or a try finds that somebody else has it. The one frame that is kept while it waits in line:
   * there may be tens of thousands, and each frame costs half a kilobyte. So what comes before that is in frames of its own.
   */
  async #attempt(mode: EnqueueMode, options: AcquireOptions): Promise<H | Taken> {
    const attempt = this.#resolve(options);
    if (mode === 'queue') this.#host.surroundings.refuseIfHeld(this.#target.queues);
    const limitMs = mode === 'try' ? 0 : attempt.waitTimeoutMs;
    // Not `using`, here and below: what that compiles to is dear on a path that every acquire takes.
    const wait = new Wait(titleOf(this.#target), limitMs, attempt.signal, this.#host);
    let hold: H | undefined;
    try {
      const { coordinator } = this.#host.options;
      const { admit } = this.#target;
      const acquisition = await this.#getInLine(mode, wait);
      if (!(acquisition instanceof Acquisition)) return acquisition;
      let { revision } = acquisition;
      if (admit !== undefined) {
        const admitted = await admit(coordinator, acquisition, mode, wait, () => wait.inLine());
        if (!('revision' in admitted)) return this.#leaveIt(acquisition, admitted.holder);
        revision = admitted.revision;
      } else if (wait.isQueued) {
        const verdict = await seeTurn(this.#host, acquisition, wait);
        if (verdict !== 'in-front') await waitTurn(verdict, coordinator, acquisition, wait.behind, wait);
      }
      // What etcd told is as old as its last message; that our lease stands, the clock says.
      if (acquisition.session.isLost()) wait.throwIfAborted();
      wait.lift();
      const terms = this.#termsOf(acquisition, attempt);
      // The target says what it gives.
      hold = new (this.#target.Hold ?? Hold)(acquisition, revision, this.#host, terms) as H;
      if (isComplete(acquisition, attempt, terms)) hold.begin();
      else await this.#complete(hold, acquisition, { ...attempt, terms }, wait);
      wait.throwIfAborted();
      if (hold.loss !== undefined) throw acquisition.lostWhileWaiting(hold.loss.lossCause ?? 'key-deleted');
      this.#tellGranted(hold, wait.waitedMs());
      return hold;
    } catch (error) {
      await this.#fail(wait, hold, error);
      throw error;
    } finally {
      wait.end();
    }
  }

  /**
   * Starts over once, where the session died before we knew of a place in the queue: one that we had went with the lease,
   * so that starting over on a new one loses none.
   */
  async #getInLine(mode: EnqueueMode, wait: Wait): Promise<Acquisition | Taken> {
    const { coordinator } = this.#host.options;
    for (let mayStartOver = true; ; mayStartOver = false) {
      const session = this.#shared(wait) ?? (await this.#openSession(wait));
      const acquisition = new Acquisition(this.#target, session, this.#host.layout, this.#host.options);
      if (this.#ownTtlMs !== undefined) session.retire();
      wait.acquisition = acquisition;
      let enqueued: Enqueued | undefined;
      try {
        const scope = acquisition.scope.follow(wait);
        enqueued = await enqueue(coordinator, acquisition, this.#target.admit ? 'queue' : mode, scope);
      } catch (error) {
        if (!mayStartOver || !isLeaseGone(session) || wait.aborted) throw error;
      } finally {
        acquisition.closeScope();
      }
      if (enqueued?.place === 'busy') return this.#leaveIt(acquisition, enqueued.holder);
      if (enqueued !== undefined) {
        acquisition.queuedAt(enqueued.revision);
        if (enqueued.place === 'queued') wait.queuedBehind(acquisition, enqueued.behind);
        acquisition.tell(wait);
        return acquisition;
      }
      wait.acquisition = undefined;
      void this.#giveUp(acquisition);
    }
  }

  #termsOf(acquisition: Acquisition, { terms }: Attempt): HoldOptions {
    const claims = this.#target.claimsOf?.(acquisition);
    return claims === undefined ? terms : { ...terms, claims };
  }

  async #fail(wait: Wait, hold: H | undefined, error: unknown): Promise<void> {
    const { acquisition } = wait;
    const gone = hold?.abandon() ?? (acquisition && this.#giveUp(acquisition));
    this.#tellGaveUp(acquisition?.id, error);
    // Whoever gave up gets the answer now; whoever is told of a failure finds the queue without his key.
    if (gone !== undefined && !wait.isGivenUp) await within(this.#host.options.clock, GONE_WITHIN_MS, gone);
  }

  /**
   * What a grant still needs before the caller gets to see it. The hold may be lost meanwhile: its key is deleted, or
   * it has lasted for `maxHoldMs`.
   */
  async #complete(
    hold: Hold,
    acquisition: Acquisition,
    { lockDelayMs, terms }: Attempt,
    wait: Wait,
  ): Promise<void> {
    const { clock, coordinator } = this.#host.options;
    using scope = new AbortScope().follow(wait).follow(acquisition.scope).follow(hold.signal);
    try {
      if (lockDelayMs !== undefined) await observeLockDelay(coordinator, acquisition, lockDelayMs, scope);
      hold.begin();
      await claimAll(clock, terms.claims, hold.token, terms.claimTimeoutMs, scope.signal);
      await freshen(clock, acquisition.session, scope);
    } catch (error) {
      // Where the session was lost too, that is what whoever waits is told.
      wait.throwIfAborted();
      acquisition.scope.throwIfAborted();
      // Then this is only what the loss came to: a guard that is sealed refuses the claim, say.
      if (hold.loss === undefined) throw error;
    }
  }

  /** None for whoever has given up already: nothing begins for him. */
  #shared(scope: AbortScope): Session | undefined {
    return this.#ownTtlMs === undefined && !scope.aborted ? this.#host.standingSession() : undefined;
  }

  async #openSession(scope: AbortScope): Promise<Session> {
    scope.throwIfAborted();
    if (this.#ownTtlMs === undefined) return await this.#host.session(scope);
    return await this.#host.ownSession(this.#ownTtlMs, scope);
  }

  #tellGranted(hold: Hold, waitedMs: number): void {
    publish('lockkeeper:lock:granted', () => ({ name: this.name, token: hold.token, waitedMs }));
  }

  #tellGaveUp(acquisition: string | undefined, error: unknown): void {
    publish('lockkeeper:lock:gave-up', () => ({ name: this.name, acquisition, error }));
  }

  /** Somebody has it, and the caller does not want to wait. */
  #leaveIt(acquisition: Acquisition, holder: KeyValue | undefined): Taken {
    this.#tellGaveUp(acquisition.id, undefined);
    void this.#giveUp(acquisition);
    return { holder: holder && readContender(holder) };
  }

  /** Resolves when no key of the acquisition is left, or none can come any more. Never rejects. */
  async #giveUp(acquisition: Acquisition): Promise<void> {
    if (!acquisition.mayExist) return acquisition.settle();
    const ending = endAcquisition(this.#host, acquisition);
    this.#host.inBackground(ending);
    await ending;
  }
}

/**
 * Leaves a request with a holder that still stands, on its lease: either its ending finds the request, or the end of the
 * lease takes it along.
 */
function ask({ key, createRevision, lease }: KeyValue, requestKey: string, request: string): Operation {
  return {
    op: 'txn',
    compare: [
      { key, target: 'createRevision', is: '=', to: createRevision },
      { key, target: 'lease', is: '=', to: lease },
    ],
    success: [{ op: 'put', key: requestKey, value: request, lease }],
    failure: [],
  };
}

/** Whether there is nothing to wait for between the grant and the caller's seeing it. */
function isComplete({ session }: Acquisition, { lockDelayMs }: Attempt, { claims }: HoldOptions): boolean {
  return lockDelayMs === undefined && claims.length === 0 && isFresh(session);
}

/** Whoever gets a hold can count on at least a third of its TTL. */
function isFresh(session: Session): boolean {
  return session.isLost() || session.remainingMs() >= session.ttlMs / 3;
}

/** Whether etcd no longer knows the lease: then no copy of what we sent can have any effect, now or later. */
function isLeaseGone({ lossCause }: Session): boolean {
  return lossCause === 'revoked' || lossCause === 'expired';
}

/**
 * Rejects when the session is lost instead, or the signal gives up: a hold whose key is gone has left its session,
 * whose loss then no longer aborts the signal.
 */
async function freshen(clock: Clock, session: Session, signal: AbortSignalLike): Promise<void> {
  const backOff = new BackOff(clock);
  signal.throwIfAborted();
  while (!isFresh(session)) {
    await session.renewNow();
    signal.throwIfAborted();
    if (!isFresh(session)) await backOff.wait(signal);
  }
}
