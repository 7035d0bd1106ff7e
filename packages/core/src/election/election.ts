import { type CallOptions, prefixSpan } from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import type { AcquireOptions, LockOptions } from '../lock/acquire-options.ts';
import { BackOff } from '../lock/back-off.ts';
import type { Queue } from '../lock/key-layout.ts';
import { Lock } from '../lock/lock.ts';
import type { LockHost } from '../lock/lock-host.ts';
import { AbortScope, within } from '../signals.ts';
import { checkCall, checkObject, duration, invalidOption, optionalSignal } from '../validation.ts';
import { type Leader, leaderOf, observeLeader } from './observer.ts';
import { checkValue, Term } from './term.ts';

export interface CampaignOptions extends AcquireOptions {
  /** What observers see while this candidate leads. Default: the keeper's `identity`. */
  readonly value?: string | undefined;
}

export interface TermsOptions extends Omit<CampaignOptions, 'waitTimeoutMs'> {
  /** Ends the candidacy: waiting stops, a term that stands is asked to stop through its signal. */
  readonly signal?: AbortSignal | undefined;
}

export interface LeaderOptions extends TermsOptions {
  /**
   * How long the work may go on after its term's signal has told it to stop, in milliseconds. Default 5,000. After a
   * loss the lock is gone meanwhile: only a guard stops its writes.
   */
  readonly drainTimeoutMs?: number | undefined;
}

export interface ObserveOptions {
  /** Ends the observation. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * An election: of all candidates the one that entered first leads. Candidates queue fairly with `etcdctl elect` and
 * Go's `concurrency.Election` under `<namespace>/election/<name>`.
 *
 * Like every lock, leadership alone does not keep a paused leader from writing late: give `term.token` to a guard.
 *
 * A campaign that ended cannot be resumed after a restart of the process with the lease of old, as Go's
 * `ResumeElection` does: a lease that was silent proves nothing about the time in between. Campaign again; the old
 * key goes with its lease.
 */
export class Election {
  readonly name: string;
  readonly #queue: Queue;
  readonly #host: LockHost;
  readonly #options: LockOptions;

  /** @internal */
  constructor(name: string, host: LockHost, options: LockOptions) {
    this.name = name;
    this.#queue = host.layout.election(name);
    this.#host = host;
    this.#options = options;
    this.#candidacy('');
  }

  /**
   * Enters the election and resolves when this candidate leads.
   * @throws {@link LockkeeperError} as {@link Lock.acquire} does, or `signal.reason`.
   */
  async campaign(options: CampaignOptions = {}): Promise<Term> {
    checkObject('options', options);
    const value = checkValue(options.value ?? this.#host.options.identity);
    return this.#candidacy(value).acquire(options);
  }

  /**
   * One term after another, for as long as the loop goes on. The body of the loop is the work of a term; when it ends,
   * the term is resigned if it still stands, and the candidate enters anew. So no term of this loop begins before the
   * work of the last one has ended. A failed campaign is repeated with back-off, but not where etcd refuses the
   * credentials.
   *
   * Ends quietly when `signal` aborts or the keeper closes; both ask the work to stop through `term.signal`.
   * `keeper.close()` waits for the body, up to its `drainTimeoutMs`, while the term stands.
   *
   * @throws {@link LockkeeperError} `invalid-option`, `permission-denied`, `unauthenticated`, `not-reentrant`,
   * `invalid-request`, `limit-exceeded`.
   */
  async *terms(options: TermsOptions = {}): AsyncGenerator<Term, void, undefined> {
    checkObject('options', options);
    const signal = optionalSignal('signal', options.signal);
    const { closing } = this.#host;
    using scope = new AbortScope().follow(signal).follow(closing);
    let backOff = new BackOff(this.#host.options.clock);
    while (!scope.signal.aborted) {
      const term = await this.#campaignOnce({ ...options, signal: scope.signal });
      if (term !== undefined) {
        yield* this.#serve(term, signal);
        if (term.loss === undefined) backOff = new BackOff(this.#host.options.clock);
      }
      await backOff.wait(scope.signal).catch(() => undefined);
    }
  }

  /**
   * Runs `work` while leading: resolves with what it returns, after resigning. Where the term is lost meanwhile, `work`
   * is waited for and the candidate enters again, and runs it again.
   *
   * When `signal` aborts, the work is asked to stop and the term is kept until it has, or until `drainTimeoutMs` has
   * passed; a successor starts only then.
   *
   * @throws what `work` throws while its term stands; `drain-timeout` where the work of a lost term does not end in
   * time, since running it a second time beside the first would be worse; `signal.reason`; or what `terms` throws.
   */
  async run<T>(options: LeaderOptions, work: (term: Term) => T | PromiseLike<T>): Promise<T> {
    checkObject('options', options);
    if (typeof work !== 'function') throw invalidOption('work', work, 'expected a function');
    const drainTimeoutMs = duration('drainTimeoutMs', options.drainTimeoutMs ?? 5_000, { min: 0 });
    for await (const term of this.terms(options)) {
      const ended = await this.#drained(term, work, drainTimeoutMs);
      if (ended === undefined) {
        // The keeper's or the caller's wish ends it with the term; a lost one must not begin again beside it.
        if (term.loss === undefined) break;
        const what = `election "${this.name}": the work of a lost term did not end within drainTimeoutMs ${drainTimeoutMs}`;
        throw new LockkeeperError('drain-timeout', what, { cause: term.loss });
      }
      if (term.loss !== undefined) continue;
      if ('error' in ended) throw ended.error;
      return ended.value;
    }
    options.signal?.throwIfAborted();
    throw new LockkeeperError('closed', `election "${this.name}": the keeper was closed`);
  }

  /**
   * Who leads now, `undefined`: nobody. A linearizable read; it may have changed by the time it arrives.
   * @throws {@link LockkeeperError} `invalid-option`, `unreachable`, `permission-denied`, `closed`; or `signal.reason`.
   */
  async leader(options: CallOptions = {}): Promise<Leader | undefined> {
    const { kvs } = await this.#host.options.coordinator.range(
      { ...prefixSpan(this.#queue.rivals), sort: { by: 'createRevision', order: 'ascend' }, limit: 1 },
      checkCall(options),
    );
    return leaderOf(kvs[0]);
  }

  /**
   * Who leads, from now on: first the leader at the moment of the call, or `undefined` for nobody; then every change of
   * the leader or of its value, in the order of etcd's revisions, each computed from all candidates at that revision.
   * While etcd cannot be reached nothing is reported, and nothing is lost unless etcd compacts it meanwhile. Changes
   * that come faster than the loop takes them are kept.
   *
   * Ends quietly when `signal` aborts or the keeper closes.
   * @throws {@link LockkeeperError} `permission-denied`, `unauthenticated`.
   */
  async *observe(options: ObserveOptions = {}): AsyncGenerator<Leader | undefined, void, undefined> {
    checkObject('options', options);
    const { closing, options: resolved } = this.#host;
    using scope = new AbortScope().follow(optionalSignal('signal', options.signal)).follow(closing);
    yield* observeLeader(resolved.coordinator, prefixSpan(this.#queue.rivals), scope.signal);
  }

  #candidacy(value: string): Lock<Term> {
    const target = { name: this.name, noun: 'election', queues: [this.#queue], value, Hold: Term };
    return new Lock<Term>(target, this.#host, this.#options);
  }

  /** `undefined`: it failed in a way that another try may mend. */
  async #campaignOnce(
    options: CampaignOptions & { readonly signal: AbortSignal },
  ): Promise<Term | undefined> {
    try {
      return await this.campaign(options);
    } catch (error) {
      if (options.signal.aborted) return undefined;
      if (!(error instanceof LockkeeperError) || HOPELESS.has(error.code)) throw error;
      this.#host.options.logger.warn(
        { election: this.name, err: error },
        'a campaign failed, entering again',
      );
      return undefined;
    }
  }

  /** Hands the term out until the caller's work on it has ended, then gives it back. */
  async *#serve(term: Term, signal: AbortSignal | undefined): AsyncGenerator<Term, void, undefined> {
    let end: () => void = () => undefined;
    this.#host.surroundings.track(
      new Promise<void>((resolve) => {
        end = resolve;
      }),
    );
    using stop = new AbortScope().follow(signal);
    stop.signal.addEventListener('abort', () => term.requestStop(stop.signal.reason), { once: true });
    if (stop.signal.aborted) term.requestStop(stop.signal.reason);
    try {
      yield term;
    } finally {
      end();
      await term.release();
    }
  }

  /** How the work ended; `undefined`: not within the limit after it was asked to stop. */
  async #drained<T>(
    term: Term,
    work: (term: Term) => T | PromiseLike<T>,
    drainTimeoutMs: number,
  ): Promise<{ value: T } | { error: unknown } | undefined> {
    const { clock } = this.#host.options;
    const working = this.#host.surroundings.inside(term, work).then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    const { signal } = term;
    const asked = new Promise<undefined>((resolve) => {
      if (signal.aborted) resolve(undefined);
      else signal.addEventListener('abort', () => resolve(undefined), { once: true });
    });
    return (await Promise.race([working, asked])) ?? within(clock, drainTimeoutMs, working);
  }
}

/** What another try would meet again. */
const HOPELESS: ReadonlySet<string> = new Set([
  'invalid-option',
  'permission-denied',
  'unauthenticated',
  'not-reentrant',
  'invalid-request',
  'limit-exceeded',
  'closed',
]);
