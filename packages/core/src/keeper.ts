import type { TokenVerifier } from '@lockkeeper/fencing';
import { closeOnSignals, type EndSignal } from './close-on-signals.ts';
import { type Coordinator, DEFAULT_CALL_TIMEOUT_MS } from './coordinator/coordinator.ts';
import { GroupCommit } from './coordinator/group-commit/group-commit.ts';
import { HistoryWatch } from './coordinator/history-watch.ts';
import { Election, type LeaderOptions } from './election/election.ts';
import type { Term } from './election/term.ts';
import { LockkeeperError } from './errors.ts';
import { type HealthOptions, type KeeperHealth, readHealth } from './health.ts';

import type { LockOptions } from './lock/acquire-options.ts';
import { BackOff } from './lock/back-off.ts';
import type { Hold } from './lock/hold.ts';
import { KeyLayout, type LockKind, type Queue } from './lock/key-layout.ts';
import { Lock } from './lock/lock.ts';
import type { LockHost } from './lock/lock-host.ts';
import { MirrorTable } from './lock/mirror-table.ts';
import { OwnershipWatch } from './lock/ownership-watch.ts';
import { QueueMirrors } from './lock/queue-mirrors.ts';
import { Surroundings } from './lock/surroundings.ts';
import { WriteHold } from './lock/write-hold.ts';
import { type BreakOptions, breakLock } from './operators/break-lock.ts';
import type { BreakAnswer } from './operators/breaking.ts';
import type { ListedLock } from './operators/crowd.ts';
import { type Inspection, inspect } from './operators/inspect.ts';
import type { InspectOptions } from './operators/inspection.ts';
import { type ListOptions, listLocks } from './operators/list-locks.ts';
import { type ConnectOptions, type ResolvedOptions, resolveOptions } from './options.ts';
import { Semaphore, type SemaphoreOptions } from './semaphore/semaphore.ts';
import { readLineage } from './session/lineage.ts';
import { Session } from './session/session.ts';
import { AbortScope, type AbortSignalLike, unlessAborted, within } from './signals.ts';
import { etcdTokenVerifier, type TokenVerifierOptions } from './token-verifier.ts';
import { checkObject, duration, invalidOption } from './validation.ts';

/** The two sides of a read/write lock. */
export interface ReadWriteLock {
  /** Held by any number at once; waits for the writers before it. */
  readonly read: Lock;
  /** Held by one alone; waits for everybody before it. Its hold can go on as a reader's: `hold.downgrade()`. */
  readonly write: Lock<WriteHold>;
}

export interface CloseOptions {
  /**
   * How long `using` callbacks may take to end after their hold's signal has told them to, in milliseconds.
   * Their locks stay held and renewed meanwhile. Default 5,000.
   */
  readonly drainTimeoutMs?: number | undefined;
}

/** How long an acquire goes on trying to open a session while etcd cannot be reached. */
const OPENING_TIMEOUT_MS = 5_000;

/** How long `close()` waits for etcd to confirm releases before it revokes the lease, which frees the rest. */
const ENDINGS_TIMEOUT_MS = 5_000;

/** How long it tries to revoke the lease after that. */
const LAST_TRY_TIMEOUT_MS = 1_000;

/**
 * Everything one process holds and waits for in one namespace, on one session at a time. After a session is
 * lost the next acquire opens a new one; a lost one is never used again.
 */
export class Keeper implements AsyncDisposable {
  readonly #options: ResolvedOptions;
  readonly #host: LockHost;
  readonly #closing = new AbortScope();
  readonly #background = new Set<Promise<unknown>>();
  readonly #retired = new Set<Session>();
  #session: Session | undefined;
  #opening: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  /** @internal */
  constructor(resolved: ResolvedOptions) {
    const layout = new KeyLayout(resolved.namespace);
    // Watched as they are sent: a transaction that waits to be joined with others has not been sent.
    const watched = new HistoryWatch(resolved.coordinator, layout.lineage, () => this.#onRegression());
    const coordinator = resolved.groupCommit ? new GroupCommit(watched, resolved.callTimeoutMs) : watched;
    const options = { ...resolved, coordinator };
    this.#options = options;
    this.#host = {
      options,
      layout,
      surroundings: new Surroundings(),
      holds: new Set<Hold>(),
      waits: new Set(),
      ownership: new OwnershipWatch(options.coordinator, options.logger),
      mirrors: new QueueMirrors(options.coordinator),
      semaphores: new MirrorTable(),
      closing: this.#closing,
      trouble: undefined,
      standingSession: () => this.#standingSession(),
      session: (signal) => this.#sharedSession(signal),
      ownSession: (ttlMs, signal) => this.#ownSession(ttlMs, signal),
      inBackground: (work) => this.#inBackground(work),
    };
  }

  /** The coordinator below, for transactions of your own under `hold.compare()`. Closed with the keeper. */
  get coordinator(): Coordinator {
    return this.#options.coordinator;
  }

  /**
   * The lock of that name, 1 to 1,024 bytes; any characters, none of which mean anything. Costs nothing
   * until it is acquired; asking twice gives two objects for one lock.
   * @throws {@link LockkeeperError} `invalid-option`.
   */
  lock(name: string, options: LockOptions = {}): Lock {
    return new Lock({ name, queues: [this.#host.layout.lock(name)] }, this.#host, options);
  }

  /**
   * A read/write lock of that name: any number of readers, or one writer. One fair queue and no barging, so a
   * stream of readers cannot starve a writer. It is another thing than `lock(name)`.
   *
   * Tokens of readers and writers are of one order. A guard refuses a writer once a newer reader or writer has
   * claimed, and a reader once a newer writer has: readers do not fence each other.
   * @throws {@link LockkeeperError} `invalid-option`.
   */
  readWriteLock(name: string, options: LockOptions = {}): ReadWriteLock {
    const { read, write } = this.#host.layout.readWrite(name);
    return {
      read: new Lock({ name, queues: [read] }, this.#host, options),
      write: new Lock<WriteHold>({ name, queues: [write], Hold: WriteHold }, this.#host, options),
    };
  }

  /**
   * A semaphore of that name: at most `permits` hold at once.
   * @throws {@link LockkeeperError} `invalid-option`.
   */
  semaphore(name: string, options: SemaphoreOptions): Semaphore {
    return new Semaphore(name, this.#host, options);
  }

  /**
   * The election of that name. Another thing than `lock(name)`.
   * @throws {@link LockkeeperError} `invalid-option`.
   */
  election(name: string, options: LockOptions = {}): Election {
    return new Election(name, this.#host, options);
  }

  /**
   * Runs `work` while this process leads the election `name`; short for `election(name).run(options, work)`.
   * @throws as {@link Election.run}.
   */
  runAsLeader<T>(
    name: string,
    work: (term: Term) => T | PromiseLike<T>,
    options: LeaderOptions = {},
  ): Promise<T> {
    return this.election(name).run(options, work);
  }

  /**
   * Several locks as one: taken in one transaction, all or none, with one token, whatever the order of the
   * names; two sets that overlap cannot deadlock. Each queues like `lock(name)` and with it. A set waits until
   * it is first everywhere, and blocks those behind it in every queue meanwhile. Where one of its keys is lost
   * the whole hold is, and the rest is released.
   * @param names - 1 to 100; what is named twice counts once. Their keys, which are the names percent-encoded below the
   * namespace, may take 128 KiB together: a hundred names of 1,024 ASCII bytes fit, a hundred of as many bytes of
   * another script, three times as long in a key, do not.
   * @throws {@link LockkeeperError} `invalid-option`.
   */
  locks(names: readonly string[], options: LockOptions = {}): Lock {
    const distinct = checkNames(names);
    const queues = distinct.map((name) => this.#host.layout.lock(name, `names[${names.indexOf(name)}]`));
    checkSize(queues);
    return new Lock({ name: distinct.join(' + '), queues }, this.#host, options);
  }

  /**
   * Asks etcd whether a token of the lock `name`, or of the read/write lock, was granted, for a guard that serves others: see
   * {@link etcdTokenVerifier}.
   * @throws {@link LockkeeperError} `invalid-option`.
   */
  tokenVerifier(name: string, options: Omit<TokenVerifierOptions, 'lock' | 'namespace'> = {}): TokenVerifier {
    const { coordinator, namespace } = this.#options;
    checkObject('options', options);
    return etcdTokenVerifier(coordinator, { ...options, namespace, lock: name });
  }

  /**
   * The random name of the revision history that etcd is in, which every token carries. Created where there
   * is none yet; another one than before means that etcd's data were wiped.
   * @throws {@link LockkeeperError}
   */
  async lineage(): Promise<string> {
    using scope = new AbortScope().follow(this.#closing);
    const { signal } = scope;
    return await readLineage(this.#options.coordinator, this.#host.layout.lineage, { signal });
  }

  /**
   * Who holds the lock `name`, and who waits for it, at one revision of etcd: for eyes and tools. It may have changed
   * by the time it arrives, so nothing is decided by it. What the contenders tell of themselves is not verified.
   *
   * A set of locks counts as a holder wherever it is first, though it may still wait elsewhere. A semaphore is shown by
   * its slots, and warnings tell of what takes one without being a permit.
   * @throws {@link LockkeeperError} `invalid-option`, `unreachable`, `permission-denied`, `closed`; or
   * `signal.reason`.
   */
  async inspect<Kind extends LockKind = 'lock'>(
    name: string,
    options: InspectOptions<Kind> = {},
  ): Promise<Inspection<Kind>> {
    // The kind decides which of them it is.
    return (await inspect(this.#host, name, options)) as Inspection<Kind>;
  }

  /**
   * Every lock, read/write lock, semaphore and election of this namespace that somebody holds or waits for, in the order of the
   * names. Read in pages, each at a revision of its own: on a busy namespace this is no picture of one moment; a lock
   * that is held throughout is in it. Keys that no keeper would write are left out.
   * @throws {@link LockkeeperError} as `inspect`.
   */
  async list(options: ListOptions = {}): Promise<readonly ListedLock[]> {
    return listLocks(this.#host, options);
  }

  /**
   * For operators: takes the lock or the permit `name` from the holder of `token`, or takes that waiter out of the queue.
   *
   * Of a holder the guards are sealed first, for exactly this token: its writes are refused from then on, those of the
   * waiters behind it are not. Only when all have confirmed is its key deleted, that and no other; then the next in
   * line is granted, and the broken holder, if it still runs, loses its hold with `key-deleted`. A waiter has written
   * nothing, and sealing its token would refuse those before it: only its key is deleted, and only while it waits.
   *
   * Where a guard is left out, or did not confirm (`force`), a late write of the broken holder is applied until the
   * next one has claimed there. Where there are readers besides, a guard must keep a mark for each kind. Of a set of
   * locks this takes one key, and thereby the hold; the rest is released by its owner, or ends with the lease.
   *
   * A lost reply is settled by looking again: `broken` then also where the owner let go at that moment. A key of
   * another program has no token: end that program, or delete its key with `etcdctl del`.
   *
   * @throws {@link LockkeeperError} `seal-failed`, naming the guards: nothing was deleted, but those that confirmed
   * stay sealed for this token. `unreachable`, with the outcome `rejected` or `unknown`; `invalid-option`,
   * `permission-denied`, `closed`; or `signal.reason`.
   */
  async break(name: string, options: BreakOptions): Promise<BreakAnswer> {
    return breakLock(this.#host, name, options);
  }

  /**
   * How this keeper is doing, for a health endpoint or a log. Asks etcd for its version, once, and answers
   * within `timeoutMs` whatever comes of it: what is not known by then is left out, and a warning says so.
   * That a member answered does not prove that writes work; only an acquire does.
   * @throws {@link LockkeeperError} `invalid-option`; nothing else.
   */
  async health(options: HealthOptions = {}): Promise<KeeperHealth> {
    const { coordinator } = this.#options;
    return readHealth(options, coordinator, () => ({
      session: this.#session,
      holds: this.#host.holds.size,
      waits: this.#host.waits.size,
      unconfirmedReleases: this.#background.size,
    }));
  }

  /**
   * Takes on no new work, lets waits fail with `closed`, asks running `using` callbacks to stop and waits
   * for them, releases every hold, revokes the lease and closes the coordinator. Nothing that keeps the
   * process alive is left. Where etcd does not answer it gives up after some 6 s, and the lease expires. Idempotent. Do not await it inside a `using` callback: it waits for that to end.
   * @throws {@link LockkeeperError} `invalid-option`; nothing else.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const drainTimeoutMs = drainLimit(options);
    this.#closed ??= this.#close(drainTimeoutMs);
    return this.#closed;
  }

  /**
   * Closes the keeper when the process is asked to end, so that a successor need not wait for the lease: drains
   * and releases as `close()` does. When every keeper registered for the signal has closed, the process ends by
   * that very signal. Handlers of the application run as always; where there is one when the signal comes,
   * ending the process is left to it. A second signal ends a process without handlers of its own at once.
   * Nothing listens until this is called.
   * @param signals - default `SIGTERM` and `SIGINT`.
   * @returns what stops listening when it is disposed.
   * @throws {@link LockkeeperError} `invalid-option`.
   */
  closeOnSignals(
    signals: readonly EndSignal[] = ['SIGTERM', 'SIGINT'],
    options: CloseOptions = {},
  ): Disposable {
    const drainTimeoutMs = drainLimit(options);
    return closeOnSignals(signals, () => this.close({ drainTimeoutMs }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(drainTimeoutMs: number): Promise<void> {
    const { clock, coordinator } = this.#options;
    const { holds, surroundings } = this.#host;
    const reason = new LockkeeperError('closed', 'the keeper was closed');
    this.#closing.abort(reason);
    for (const wait of this.#host.waits) wait.abort(reason);
    for (const hold of holds) hold.requestStop(reason);
    await within(clock, drainTimeoutMs, surroundings.drained());
    const confirmed = await within(clock, ENDINGS_TIMEOUT_MS, this.#endAll());
    await this.#opening?.catch(() => undefined); // whoever waits for it is told; we only need it to be over
    // Where etcd has not answered for so long, it gets one short try more; the lease expires anyway.
    const call = { timeoutMs: confirmed ? DEFAULT_CALL_TIMEOUT_MS : LAST_TRY_TIMEOUT_MS };
    await Promise.all([this.#session, ...this.#retired].map((session) => session?.close(call)));
    await coordinator.close();
  }

  /** Resolves when etcd has confirmed every ending. */
  async #endAll(): Promise<true> {
    await Promise.all([...this.#host.holds].map((hold) => hold.release()));
    await Promise.all(this.#background);
    return true;
  }

  #standingSession(): Session | undefined {
    if (this.#session?.isWorn) this.#retire(this.#session);
    return this.#session?.isLost() === false ? this.#session : undefined;
  }

  async #sharedSession(signal: AbortSignalLike): Promise<Session> {
    for (;;) {
      const standing = this.#standingSession();
      if (standing !== undefined) return standing;
      this.#opening ??= this.#openShared().finally(() => {
        this.#opening = undefined;
      });
      // The opening serves everybody who waits for it, so one caller's abort must not end it.
      await unlessAborted(signal, this.#opening);
    }
  }

  async #openShared(): Promise<void> {
    this.#session = await this.#open(this.#options.ttlMs);
  }

  async #ownSession(ttlMs: number, signal: AbortSignalLike): Promise<Session> {
    const opening = this.#open(ttlMs);
    try {
      const session = await unlessAborted(signal, opening);
      this.#keepRetired(session);
      return session;
    } catch (error) {
      // Whoever wanted it has gone.
      this.#inBackground(
        opening.then(
          (session) => session.close(),
          () => undefined,
        ),
      );
      throw error;
    }
  }

  /** Tries for as long as an etcd that restarts, or elects a leader, may take. */
  async #open(ttlMs: number): Promise<Session> {
    const { clock } = this.#options;
    using scope = new AbortScope().follow(this.#closing);
    const backOff = new BackOff(clock);
    const until = clock.now() + OPENING_TIMEOUT_MS;
    for (;;) {
      try {
        const session = await this.#openOnce(ttlMs, scope);
        this.#host.trouble = undefined;
        return session;
      } catch (error) {
        if (!(error instanceof LockkeeperError && error.code === 'unreachable')) throw error;
        this.#host.trouble = error;
        if (clock.now() >= until) throw error;
      }
      await backOff.wait(scope);
    }
  }

  async #openOnce(ttlMs: number, signal: AbortSignalLike): Promise<Session> {
    const { coordinator, marginMs, logger } = this.#options;
    const lineage = await readLineage(coordinator, this.#host.layout.lineage, { signal });
    return Session.open(
      {
        coordinator,
        ttlMs,
        marginMs,
        lineage,
        lineageKey: this.#host.layout.lineage,
        logger,
        inBackground: this.#host.inBackground,
      },
      { signal },
    );
  }

  #retire(session: Session): void {
    this.#keepRetired(session);
    session.retire();
    this.#session = undefined;
  }

  /** Until it is lost, or closes with its last member, the keeper still has to close it. */
  #keepRetired(session: Session): void {
    for (const earlier of this.#retired) if (earlier.isLost()) this.#retired.delete(earlier);
    this.#retired.add(session);
  }

  #onRegression(): void {
    this.#options.logger.error(
      {},
      "etcd's history went back: data were wiped or restored; its tokens cannot be ordered",
    );
    for (const session of [this.#session, ...this.#retired]) session?.end('history-regressed');
  }

  #inBackground(work: Promise<unknown>): void {
    this.#background.add(work);
    void work.finally(() => this.#background.delete(work));
  }
}

/** etcd allows 128 operations in a transaction; the rest is for what an acquire compares besides. */
const MOST_NAMES = 100;

function checkNames(names: unknown): readonly string[] {
  if (!Array.isArray(names)) throw invalidOption('names', names, 'expected an array of names');
  const distinct = [...new Set(names as string[])];
  if (distinct.length === 0 || distinct.length > MOST_NAMES)
    throw invalidOption('names.length', distinct.length, `expected 1 to ${MOST_NAMES} different names`);
  return distinct;
}

/** A set's largest transaction names every key up to eight times; etcd takes 1.5 MiB, of which the rest is for values. */
const MOST_KEY_BYTES = 128 * 1_024;

function checkSize(queues: readonly Queue[]): void {
  const bytes = queues.reduce((sum, { keys }) => sum + keys.length, 0);
  if (bytes <= MOST_KEY_BYTES) return;
  const why = `expected at most ${MOST_KEY_BYTES} for all ${queues.length} names together, percent-encoded and with the namespace`;
  throw invalidOption('the size of the keys of names, in bytes,', bytes, why);
}

function drainLimit(options: CloseOptions): number {
  checkObject('options', options);
  return duration('drainTimeoutMs', options.drainTimeoutMs ?? 5_000, { min: 0 });
}

/**
 * Connects to etcd (or to a given coordinator) and reads the lineage, so that a cluster that cannot be used
 * shows here. A lease is granted with the first acquire.
 * @throws {@link LockkeeperError} `invalid-option`, `unreachable`, `unauthenticated`, `permission-denied`.
 */
export async function connect(options: ConnectOptions): Promise<Keeper> {
  const resolved = resolveOptions(options);
  const keeper = new Keeper(resolved);
  try {
    await keeper.lineage();
    return keeper;
  } catch (error) {
    await keeper.close();
    throw error;
  }
}
