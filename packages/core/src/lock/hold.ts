import { type Claimable, FencingToken } from '@lockkeeper/fencing';
import { sleep, type Timer } from '../clock.ts';
import type { Compare, Coordinator } from '../coordinator/coordinator.ts';
import { LockkeeperError, type LossCause } from '../errors.ts';
import type { SessionMember } from '../session/session.ts';
import { AbortScope, within } from '../signals.ts';
import { publish } from '../telemetry.ts';
import { invalidOption } from '../validation.ts';
import type { Acquisition } from './acquisition.ts';
import { claimAll, sealAll } from './claims.ts';
import { type Ending, endAcquisition } from './ending.ts';
import type { LockHost } from './lock-host.ts';
import { OwnedKey, type Owner } from './ownership-watch.ts';
import { type ReleaseRequest, RequestWatch } from './release-request.ts';

/**
 * `held`: confirmed in time. `suspect`: a renewal is overdue, or the machine seems to have been suspended.
 * `lost`: for good, another client may hold the lock. `released`: by its owner.
 */
export type HoldStanding = 'held' | 'suspect' | 'lost' | 'released';

/** How a release went. */
export interface ReleaseAnswer {
  /**
   * `released`: the lock is free and nothing showed that it had been lost before. `already-lost`: it had.
   * `unknown`: not confirmed yet; it is repeated in the background until it is, or the lease ends.
   */
  readonly outcome: 'released' | 'already-lost' | 'unknown';
  /** Whether every guard promised to accept nothing more; `undefined` where there was nothing to seal. */
  readonly sealed: boolean | undefined;
}

/** How long a hold may last, and what it does with its guards when it ends. */
export interface HoldOptions {
  readonly minHoldMs: number;
  readonly maxHoldMs: number | undefined;
  readonly claims: readonly Claimable[];
  readonly claimTimeoutMs: number;
  readonly sealOnRelease: boolean;
}

export type HoldClass = new (
  acquisition: Acquisition,
  revision: bigint,
  host: LockHost,
  options: HoldOptions,
) => Hold;

/** What `fencedTxn` needs of a hold that stands. */
export interface HoldFence {
  readonly coordinator: Coordinator;
  readonly acquisition: Acquisition;
  /** Etcd showed that the hold does not stand any more; resolves with the error to throw. */
  spoilt(cause: SpoilCause | 'history-regressed'): Promise<LockkeeperError>;
}

/** How long `release` waits for etcd's confirmation before it answers `unknown`. */
const RELEASE_TIMEOUT_MS = 5_000;

/** How long a loss waits for a renewal to tell its cause. */
const CAUSE_TIMEOUT_MS = 500;

export type SpoilCause = 'key-deleted' | 'foreign-write';

/**
 * Proof of one acquisition of one lock. It never becomes valid again once it is lost or released.
 *
 * Everything it tells is computed from the clock when asked. That still leaves a gap between asking and
 * acting, which a pause of the process can stretch at will: where two writers at once do harm, pass `token`
 * to a guard at the storage, or `compare()` to a transaction in etcd.
 */
export class Hold implements AsyncDisposable, Owner, SessionMember {
  /** The lock's name. */
  readonly name: string;
  readonly #acquisition: Acquisition;
  readonly #host: LockHost;
  readonly #options: HoldOptions;
  /** When work could begin under it: after a lock-delay. */
  #beganAt: number | undefined;
  readonly #revision: bigint;
  /** Made when it is asked for. */
  #token: FencingToken | undefined;
  /** Of the work under the lock, where anybody asked for its signal, or it was told to stop. */
  #work: AbortScope | undefined;
  readonly #owned: readonly OwnedKey[];
  /** Our key is gone or overwritten; the cause of the loss may turn out to be the session's. */
  #spoiltBy: SpoilCause | undefined;
  #loss: LockkeeperError | undefined;
  #ending: Promise<Ending> | undefined;
  #capTimer: Timer | undefined;
  /** Few holds are listened to. */
  #requests: RequestWatch | undefined;
  #isUnwatched = false;
  #told = false;
  #releasing: Promise<ReleaseAnswer> | undefined;

  /** @internal */
  constructor(acquisition: Acquisition, revision: bigint, host: LockHost, options: HoldOptions) {
    this.name = acquisition.name;
    this.#acquisition = acquisition;
    this.#host = host;
    this.#options = options;
    this.#revision = revision;
    acquisition.tell(this);
    this.#owned = acquisition.places.map((place) => new OwnedKey(host.ownership, this, acquisition, place));
    host.holds.add(this);
  }

  /**
   * Rises with every grant of this lock; the same for the whole life of the hold, until a writer of a read/write lock
   * becomes a reader (`downgrade`). A reader's token is `shared`: guards refuse no reader because of another one.
   */
  get token(): FencingToken {
    if (this.#token === undefined) {
      const { id, session, queues } = this.#acquisition;
      this.#token = new FencingToken({
        lineage: session.lineage,
        revision: this.#revision,
        acquisition: id,
        shared: queues.some(({ queue }) => queue.isOfReaders === true),
      });
    }
    return this.#token;
  }

  /** Consults the clock first. */
  get standing(): HoldStanding {
    if (this.#loss !== undefined || this.#spoiltBy !== undefined) return 'lost';
    if (this.#releasing !== undefined) return 'released';
    if (this.#heldMs() >= (this.#options.maxHoldMs ?? Number.POSITIVE_INFINITY)) {
      this.#reachCap();
      return 'lost';
    }
    // A loss that shows only now is reported to the members, this one among them, before it is returned.
    return this.#acquisition.session.standing;
  }

  /**
   * Aborts when the hold is lost, with a {@link LockkeeperError} `lost` that names the cause; or with `closed`
   * when the keeper closes, to ask the work to stop while the lock is still held. Never because of a release
   * of your own. Reading it consults the clock first, so `hold.signal.aborted` is right even after a
   * stalled event loop; a signal kept aside is only updated by a timer or the next look at the hold.
   */
  get signal(): AbortSignal {
    if (this.standing === 'lost' && this.#spoiltBy !== undefined) this.#lose(this.#spoiltBy);
    this.#work ??= new AbortScope();
    return this.#work.signal;
  }

  /** The time-to-live etcd granted, in milliseconds. */
  get ttlMs(): number {
    return this.#acquisition.session.ttlMs;
  }

  /** Milliseconds until this hold is given up unless a renewal is confirmed; 0 once lost or released. */
  remainingMs(): number {
    const { standing } = this;
    return standing === 'lost' || standing === 'released' ? 0 : this.#acquisition.session.remainingMs();
  }

  /**
   * Passes while the hold is safe to act on: held, or suspect because of an overdue renewal, whose deadline
   * still stands. Returning proves nothing about the next line of code: see the class comment.
   * @throws {@link LockkeeperError} `lost`, `released` or `suspect` (the clock is in doubt; begin nothing new).
   */
  assertHeld(): void {
    const { standing } = this;
    if (standing === 'released') throw this.#released();
    if (standing === 'lost') throw this.loss;
    if (this.#acquisition.session.isSafe()) return;
    const why = 'wall time ran ahead of the monotonic clock, as when a machine was suspended';
    throw new LockkeeperError('suspect', `${this.#acquisition.title}: ${why}; a renewal is under way`);
  }

  /**
   * Calls `listener` for every `lock.requestRelease()` that is addressed to this hold, those from before this call
   * included, until it is disposed or the hold ends. Nothing else happens: whether the work stops and the lock is
   * released is yours to decide. A listener that throws ends the process, as any uncaught error does.
   */
  onReleaseRequested(listener: (request: ReleaseRequest) => void): Disposable {
    if (typeof listener !== 'function') throw invalidOption('listener', listener, 'expected a function');
    const { options } = this.#host;
    this.#requests ??= new RequestWatch(
      options.coordinator,
      options.logger,
      this.#acquisition.requestKey,
      this.#revision,
    );
    // One that is over hears nothing.
    if (this.#isUnwatched) this.#requests.close();
    return this.#requests.listen(listener);
  }

  /**
   * The comparisons that make a transaction of your own take effect only while this hold stands: the key of
   * this very grant is there, in the same etcd history. Lease, holder and generation are then checked
   * together with the write, by etcd.
   */
  compare(): readonly Compare[] {
    const { places, lineageCompare } = this.#acquisition;
    return [...places.flatMap((place) => this.#acquisition.standsAt(place)), lineageCompare];
  }

  /**
   * Gives the lock back: seals the guards, then deletes the key of exactly this grant; not before `minHoldMs`
   * have passed since the grant. Idempotent; all calls share one answer. Never rejects, and never touches a
   * newer hold. Waits for etcd's confirmation for at most 5 s (after at most `claimTimeoutMs` for the guards),
   * and not at all where the hold is known to be lost.
   */
  release(): Promise<ReleaseAnswer> {
    this.#releasing ??= this.#finish(this.standing === 'lost');
    return this.#releasing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** @internal What messages call it. */
  get title(): string {
    return this.#acquisition.title;
  }

  /** @internal Whoever waits in one of these waits for this hold. */
  get families(): readonly string[] {
    return this.#acquisition.queues.flatMap(({ queue }) => queue.family ?? []);
  }

  /** @internal What a fenced transaction works with. @throws LockkeeperError `lost`, `released` */
  fence(): HoldFence {
    const { standing } = this;
    if (standing === 'lost') throw this.loss;
    if (standing === 'released') throw this.#released();
    return {
      coordinator: this.#host.options.coordinator,
      acquisition: this.#acquisition,
      spoilt: async (cause) => {
        if (cause === 'history-regressed') this.#acquisition.session.end(cause);
        else await this.#spoilt(cause);
        return this.loss ?? this.#released();
      },
    };
  }

  /**
   * Work of the hold itself, which its loss cuts short: that fails with what the hold tells, and not with what a
   * lost session tells those who wait.
   */
  protected async whileHeld<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (this.#acquisition.scope.aborted) this.fence();
      throw error;
    }
  }

  /** Goes on in shared mode. Resolves when every guard of the hold refuses what its exclusive token may still send. */
  protected async claimShared(): Promise<void> {
    this.#token = new FencingToken({ ...this.token, shared: true });
    const { claims, claimTimeoutMs } = this.#options;
    const { signal } = this.#acquisition.scope;
    await claimAll(this.#host.options.clock, claims, this.token, claimTimeoutMs, signal);
  }

  /** @internal Why it was lost, also where that came to light only at the release. */
  get loss(): LockkeeperError | undefined {
    if (this.standing === 'lost') this.#loss ??= this.#describe(this.#spoiltBy ?? 'unconfirmed');
    return this.#loss;
  }

  /** @internal */
  onSpoilt(cause: SpoilCause): void {
    void this.#spoilt(cause);
  }

  /** @internal */
  onSessionLost(cause: LossCause): void {
    this.#lose(cause);
  }

  /** @internal From now on it counts as held. */
  begin(): void {
    this.#beganAt = this.#host.options.clock.now();
    this.#armCap();
  }

  /** @internal Ends a hold that nobody got to see: its claims failed, or it was given up meanwhile. */
  abandon(): Promise<unknown> {
    this.#unwatch();
    this.#host.holds.delete(this);
    this.#releasing ??= Promise.resolve({ outcome: 'released', sealed: undefined });
    return this.#end();
  }

  /** @internal Asks the work to stop while the lock is still held: the keeper is closing. */
  requestStop(reason: unknown): void {
    this.#stopWork(reason);
  }

  async #finish(alreadyLost: boolean): Promise<ReleaseAnswer> {
    this.#unwatch();
    const answer = alreadyLost ? this.#letGo() : await this.#release();
    this.#host.holds.delete(this);
    publish('lockkeeper:lock:released', () => {
      return { name: this.name, token: this.token, ...answer, heldMs: this.#heldMs() };
    });
    return answer;
  }

  #letGo(): ReleaseAnswer {
    void this.#end();
    return { outcome: 'already-lost', sealed: undefined };
  }

  async #release(): Promise<ReleaseAnswer> {
    const sealed = this.#hasToSeal ? await this.#seal() : undefined;
    if (this.#options.minHoldMs > 0) await this.#outlastMinimum();
    this.#acquisition.isReleased = true;
    const ending = await this.#confirmed();
    // Nobody confirmed it, and the key ends with its lease at the latest. The hold was not lost before.
    if (ending === undefined || ending === 'session-lost') return { outcome: 'unknown', sealed };
    if (ending === 'deleted') return { outcome: 'released', sealed };
    this.#loss ??= this.#describe('key-deleted');
    return { outcome: 'already-lost', sealed };
  }

  /** Our session's timers keep the process alive; this one need not. */
  #armCap(): void {
    const { maxHoldMs } = this.#options;
    if (maxHoldMs === undefined) return;
    const onCap = () => {
      // A timer may fire a fraction of a millisecond early.
      if (this.standing === 'held' || this.standing === 'suspect') this.#armCap();
    };
    const leftMs = Math.max(0, maxHoldMs - this.#heldMs());
    this.#capTimer = this.#host.options.clock.setTimer(leftMs, onCap, { ref: false });
  }

  get #hasToSeal(): boolean {
    return this.#options.sealOnRelease && this.#options.claims.length > 0;
  }

  /** Held for as long as it may be: lost to the work, then sealed and given back, in that order whoever releases it. */
  #reachCap(): void {
    this.#lose('max-hold');
    void this.#end(this.#hasToSeal ? this.#seal() : undefined);
  }

  /** The lock stays taken until its minimum has passed, or the session is lost. */
  async #outlastMinimum(): Promise<void> {
    const leftMs = this.#options.minHoldMs - this.#heldMs();
    const { scope: signal } = this.#acquisition;
    if (leftMs > 0) await sleep(this.#host.options.clock, leftMs, { signal }).catch(() => undefined);
  }

  /** How it ended, or `undefined` where that is not known in time. Mostly the first try tells, and needs no timer. */
  #confirmed(): Promise<Ending | undefined> {
    const { clock } = this.#host.options;
    if (this.#ending !== undefined) return within(clock, RELEASE_TIMEOUT_MS, this.#ending);
    const begunAt = clock.now();
    return new Promise((resolve) => {
      let timer: Timer | undefined;
      const ending = endAcquisition(this.#host, this.#acquisition, () => {
        this.#host.inBackground(ending);
        const leftMs = Math.max(0, RELEASE_TIMEOUT_MS - (clock.now() - begunAt));
        timer = clock.setTimer(leftMs, () => resolve(undefined));
      });
      this.#ending = ending;
      void ending.then((how) => {
        timer?.cancel();
        resolve(how);
      });
    });
  }

  /** @param sealed - what the key is kept for; never rejects. */
  #end(sealed?: Promise<unknown>): Promise<Ending> {
    if (this.#ending === undefined) {
      const end = () => endAcquisition(this.#host, this.#acquisition);
      this.#ending = sealed === undefined ? end() : sealed.then(end);
      this.#host.inBackground(this.#ending);
    }
    return this.#ending;
  }

  #seal(): Promise<boolean> {
    const { claims, claimTimeoutMs } = this.#options;
    const { clock, logger } = this.#host.options;
    return sealAll(clock, claims, this.token, claimTimeoutMs, logger);
  }

  #lose(cause: LossCause): void {
    if (this.#told || this.#releasing !== undefined) return;
    this.#told = true;
    this.#loss ??= this.#describe(cause);
    this.#unwatch();
    this.#stopWork(this.#loss);
    publish('lockkeeper:lock:lost', () => ({
      name: this.name,
      token: this.token,
      cause,
      heldMs: this.#heldMs(),
    }));
    this.#host.options.logger.warn({ lock: this.name, token: this.token, cause }, 'a lock was lost');
  }

  /**
   * Where our key went with its lease, the cause is the session's and every hold on it is lost; one renewal
   * tells. This hold is lost at once, only its signal waits for the cause, unless somebody looks before.
   */
  async #spoilt(cause: SpoilCause): Promise<void> {
    if (this.#loss !== undefined || this.#releasing !== undefined) return;
    const { session } = this.#acquisition;
    this.#spoiltBy = cause;
    await within(this.#host.options.clock, CAUSE_TIMEOUT_MS, session.renewNow());
    this.#lose(cause);
    if (!session.isLost()) void this.#end();
  }

  #stopWork(reason: unknown): void {
    this.#work ??= new AbortScope();
    this.#work.abort(reason);
  }

  #unwatch(): void {
    this.#isUnwatched = true;
    this.#requests?.close();
    this.#capTimer?.cancel();
    for (const owned of this.#owned) owned.close();
  }

  #heldMs(): number {
    return this.#beganAt === undefined ? 0 : this.#host.options.clock.now() - this.#beganAt;
  }

  #released(): LockkeeperError {
    return new LockkeeperError('released', `${this.#acquisition.title}: already released`);
  }

  #describe(cause: LossCause): LockkeeperError {
    const { session } = this.#acquisition;
    const heldFor = (this.#heldMs() / 1_000).toFixed(1);
    const why = session.lossCause === undefined ? cause : session.describeLoss();
    return new LockkeeperError('lost', `${this.#acquisition.title}: lost after ${heldFor} s (${why})`, {
      lossCause: cause,
    });
  }
}
