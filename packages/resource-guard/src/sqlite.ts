// The guard for rows in SQLite. Safety rests on SQLite's one write lock: a run takes it before it checks the
// token and gives it back by COMMIT, and the guard's state is a row of the same file.
import {
  decideGuard,
  type FencingToken,
  type Guard,
  type GuardAdmin,
  type GuardCallOptions,
  GuardError,
  type GuardState,
  type RunOptions,
} from '@lockkeeper/fencing';
import { DecidingGuard, type Step } from './deciding-guard.ts';
import { EffectScope } from './effect-scope.ts';
import { checkEffect, checkFlag, checkMs, checkToken, invalid } from './options.ts';
import { Connection, type Wait } from './sqlite/connection.ts';
import { checkDatabase, firstColumn, inTransaction, type SqliteDatabase } from './sqlite/database.ts';
import { type Begun, begin, checkWork, didNotRun, isThenable, unlessAborted } from './sqlite/effect.ts';
import { type ErrorContext, isBusy, make, notApplied } from './sqlite/errors.ts';
import { type GuardSql, type GuardTable, guardSql, parseState, storeParameters } from './sqlite/sql.ts';
import { poll, readNow, Transaction } from './sqlite/transaction.ts';
import { formatStoredState } from './stored-state.ts';

export type { SqliteDatabase, SqliteStatement } from './sqlite/database.ts';
export type { GuardTable } from './sqlite/sql.ts';

export interface SqliteGuardOptions extends GuardTable {
  /** The name of what is guarded: non-empty, at most 1,024 bytes of UTF-8. */
  readonly resource: string;
  /** Reject tokens that never claimed with `unclaimed`. Default `false`. */
  readonly requireClaim?: boolean | undefined;
  /**
   * How long a call waits for its turn on the connection and for the file's write lock, and again for readers
   * at COMMIT, before it fails with `timeout`. Default 10,000 ms. The process goes on meanwhile; the connection's
   * own `busy_timeout` is not used, except by `transaction` and `enter`, and not changed for others.
   */
  readonly busyTimeoutMs?: number | undefined;
}

/** A guard whose effects are statements of one transaction on one connection. */
export interface SqliteGuard<DB extends SqliteDatabase = SqliteDatabase> extends Guard<DB>, GuardAdmin {
  /**
   * `run` without a promise: for work that is one piece of synchronous code, the fastest way. What `work`
   * throws comes out untouched after its writes were undone.
   *
   * Waits for the write lock as long as the connection's `busy_timeout` says, which blocks the process.
   * @throws {@link GuardError}; `retry` while another run is at work on the connection; `invalid-option` where
   * the connection has an open transaction, or `work` returns a promise (nothing is applied then, except what
   * it writes later).
   */
  transaction<T>(token: FencingToken, work: (handle: DB) => T, options?: Pick<RunOptions, 'requireClaim'>): T;

  /**
   * Checks `token` inside a transaction that is open on the connection: the caller's own, or that of another
   * guard's effect. It takes the write lock, so no newer claim gets through before that transaction ends.
   * Synchronous, to be called inside `db.transaction(…)` too.
   *
   * A token that never claimed is always `unclaimed`. After any error the caller rolls back. `retry`: another
   * process has the write lock, or wrote since this transaction read; `BEGIN IMMEDIATE` avoids the latter.
   * COMMIT is the caller's.
   * @throws {@link GuardError} `invalid-option` where no transaction is open.
   */
  enter(token: FencingToken): void;

  /** Creates the guard's table unless it exists. Idempotent, and safe from many processes at once. */
  migrate(): Promise<void>;
}

/**
 * A guard for rows in an SQLite file, over a `Database` of better-sqlite3 or a `DatabaseSync` of `node:sqlite`.
 *
 * - **One writer at a time**, in whichever process, even of one holder: a run is `BEGIN IMMEDIATE`, the check,
 *   the effect, `COMMIT`. Calls of all guards on one connection queue.
 * - **An effect that awaits** keeps the write lock and the connection's transaction meanwhile. Statements that
 *   other code sends on the same connection land in that transaction. Give such effects a connection of their
 *   own, or better: do not await, and no other code can come between.
 * - **A claim drains**: it waits until no transaction is open in the file. It is synchronised to the disk
 *   whatever `PRAGMA synchronous` says.
 * - **A frozen writer** keeps the write lock until it goes on or its process ends; SQLite has no way to end it.
 *   Claims of others fail with `timeout` meanwhile, and nothing is lost.
 * - **Only the transaction that the guard opened is committed.** An effect that ends it is `unknown`, and what
 *   it writes afterwards through the raw connection is beyond the guard.
 * - **Outcomes**: `timeout` for a file that stays locked; `unknown` where COMMIT failed at the disk; else
 *   nothing was applied. A signal that aborts before COMMIT rejects with its reason and nothing is applied;
 *   an effect that has begun keeps its turn until it settles.
 *
 * Inside an effect write through `db`. A call of a guard on the same connection, except `enter`, would wait for
 * that effect, so there it is refused with `invalid-option`.
 *
 * @param db - stays the caller's, and writable. An in-memory database guards only the code on this connection.
 * @throws {@link GuardError} `invalid-option`
 */
export function sqliteGuard<DB extends SqliteDatabase>(db: DB, options: SqliteGuardOptions): SqliteGuard<DB> {
  return new GuardOnSqlite(db, options);
}

/** The SQL that creates the guard's table, for migrations of your own. Running it again does nothing. */
export function sqliteGuardSql(options: GuardTable = {}): string {
  return `${guardSql(options).create};\n`;
}

class GuardOnSqlite<DB extends SqliteDatabase> extends DecidingGuard implements SqliteGuard<DB> {
  readonly #db: DB;
  readonly #connection: Connection;
  readonly #requireClaim: boolean;
  readonly #busyTimeoutMs: number;
  readonly #sql: GuardSql;

  constructor(db: DB, options: SqliteGuardOptions) {
    super(options?.resource);
    this.#db = checkDatabase(db);
    this.#requireClaim = checkFlag('requireClaim', options.requireClaim, false);
    this.#busyTimeoutMs = checkMs('busyTimeoutMs', options.busyTimeoutMs, 10_000);
    this.#sql = guardSql(options);
    this.#connection = Connection.of(db);
  }

  async run<T>(
    presented: FencingToken,
    effect: (handle: DB) => T | Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const token = checkToken(presented);
    checkEffect(effect);
    this.#refuseInside();
    const requireClaim = checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    const wait = this.#wait(token, options.signal);
    wait.signal?.throwIfAborted();
    if (!this.#connection.tryTurn()) await this.#connection.turn(wait);
    let turnIsOurs = true;
    try {
      const { tx, scope, result } = await this.#beginInForce(token, effect, requireClaim, wait);
      if (isThenable(result)) {
        turnIsOurs = false;
        return await unlessAborted(this.#finish(tx, scope, result, wait), tx, wait.signal);
      }
      if (!tx.isOver) await tx.commit(this.#wait(token, wait.signal));
      return result;
    } finally {
      if (turnIsOurs) this.#connection.leaveTurn();
    }
  }

  transaction<T>(
    presented: FencingToken,
    work: (handle: DB) => T,
    options: Pick<RunOptions, 'requireClaim'> = {},
  ): T {
    const token = checkToken(presented);
    checkWork(work);
    this.#refuseInside();
    const requireClaim = checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    const context = this.#context(token);
    if (!this.#connection.tryTurn()) {
      throw make('retry', 'another run is at work on the connection', undefined, context);
    }
    try {
      if (this.#connection.isInTransaction()) {
        throw invalid('db', this.#db, 'it has an open transaction; inside it call enter() instead');
      }
      const tx = this.#openInForceNow(token, requireClaim, context);
      const { result } = begin(tx, this.#connection.held, () => work(this.#db));
      if (isThenable(result)) {
        Promise.resolve(result).catch(() => undefined);
        tx.undo(undefined);
        throw invalid('work', work, 'it returned a promise; use run()');
      }
      tx.commitNow();
      return result;
    } finally {
      this.#connection.leaveTurn();
    }
  }

  enter(presented: FencingToken): void {
    const token = checkToken(presented);
    const context = this.#context(token);
    if (!inTransaction(this.#db)) {
      throw invalid(
        'db',
        this.#db,
        `guard "${this.resource}" enters an open transaction; send BEGIN IMMEDIATE`,
      );
    }
    let state: GuardState | undefined;
    try {
      this.#connection.run(this.#sql.lock);
      state = this.#state();
    } catch (error) {
      const busy = isBusy(error);
      throw busy ? make('retry', 'roll back and begin again', error, context) : notApplied(error, context);
    }
    const decision = decideGuard('run', this.resource, state, token, { requireClaim: true });
    if (decision.verdict === 'reject') throw decision.error;
  }

  async inspect(options: GuardCallOptions = {}): Promise<GuardState | undefined> {
    const wait = this.#wait(undefined, options.signal);
    // No write lock: also while a writer is frozen, operators can look, in WAL mode at least.
    return poll(wait, () => readNow(this.#connection, wait.context, () => this.#state()));
  }

  async migrate(): Promise<void> {
    this.#refuseInside();
    await this.#inTurn(this.#wait(undefined, undefined), async (wait) => {
      const tx = await Transaction.open(this.#connection, wait);
      tx.attempt(() => this.#db.exec(this.#sql.create));
      await tx.commit(wait);
    });
  }

  protected async take(step: Step): Promise<void> {
    this.#refuseInside();
    await this.#inTurn(this.#wait(step.token, step.signal), (wait) => this.#takeInTurn(step, wait));
  }

  /** One transaction that changes nothing but the guard's state, committed to the disk. */
  async #takeInTurn(step: Step, wait: Wait): Promise<void> {
    const tx = await Transaction.open(this.#connection, wait, { durable: this.#sql.schema });
    if (this.#decide(tx, step)) await tx.commit(this.#wait(wait.context.token, wait.signal));
  }

  /** Whether there is something to commit; if not, `tx` is over. */
  #decide(tx: Transaction, step: Step): boolean {
    const decision = tx.attempt(() => step.decide(this.#state()));
    if (decision.verdict === 'accept' && decision.next !== undefined) {
      const parameters = storeParameters(this.resource, decision.next);
      tx.attempt(() => this.#connection.run(this.#sql.store, ...parameters));
      return true;
    }
    tx.undo(undefined);
    if (decision.verdict === 'reject') throw decision.error;
    return false;
  }

  /** Begins the effect in a transaction in which `token` is in force, which stays so until it ends. */
  async #beginInForce<T>(
    token: FencingToken,
    effect: (handle: DB) => T | Promise<T>,
    requireClaim: boolean,
    wait: Wait,
  ): Promise<Begun<T>> {
    const first = await this.#tryBegin(token, effect, requireClaim, wait);
    if (first !== undefined) return first;
    // Newer than the state. The claim is a transaction of its own, so that it stays where the effect throws.
    await this.#takeInTurn(this.stepOf('claim', token, wait.signal), wait).catch(didNotRun(wait.context));
    const second = await this.#tryBegin(token, effect, true, wait);
    if (second !== undefined) return second;
    throw make('retry', 'the state changed meanwhile', undefined, wait.context);
  }

  /** `undefined` where the state has to advance first. */
  async #tryBegin<T>(
    token: FencingToken,
    effect: (handle: DB) => T | Promise<T>,
    requireClaim: boolean,
    wait: Wait,
  ): Promise<Begun<T> | undefined> {
    await this.#connection.leaveGap(wait.signal);
    // From BEGIN to the end of an effect that does not await, and its COMMIT, no other code of the process runs.
    return poll(wait, () => {
      const tx = Transaction.tryOpen(this.#connection, wait.context, {});
      if (tx instanceof GuardError) return tx;
      if (!this.#isInForce(tx, token, requireClaim)) return undefined;
      const begun = begin(tx, this.#connection.held, () => effect(this.#db));
      if (!isThenable(begun.result) && wait.signal?.aborted !== true) tx.tryCommit();
      return begun;
    });
  }

  #openInForceNow(token: FencingToken, requireClaim: boolean, context: ErrorContext): Transaction {
    const tx = Transaction.openNow(this.#connection, context);
    if (this.#isInForce(tx, token, requireClaim)) return tx;
    const claim = Transaction.openNow(this.#connection, context, this.#sql.schema);
    try {
      if (this.#decide(claim, this.stepOf('claim', token, undefined))) claim.commitNow();
    } catch (error) {
      didNotRun(context)(error);
    }
    const second = Transaction.openNow(this.#connection, context);
    if (this.#isInForce(second, token, true)) return second;
    throw make('retry', 'the state changed meanwhile', undefined, context);
  }

  /** If not, `tx` is over. */
  #isInForce(tx: Transaction, token: FencingToken, requireClaim: boolean): boolean {
    const row = tx.attempt(() => this.#read());
    // Nearly always, and quicker than parsing: the same token, not sealed.
    if (firstColumn(row) === formatStoredState({ token, sealed: false })) return true;
    const decision = tx.attempt(() =>
      decideGuard('run', this.resource, parseState(this.resource, row), token, { requireClaim }),
    );
    if (decision.verdict === 'accept' && decision.next === undefined) return true;
    tx.undo(undefined);
    if (decision.verdict === 'reject') throw decision.error;
    return false;
  }

  /** An effect that awaits keeps its turn until it has settled, also when nobody waits for it any more. */
  async #finish<T>(tx: Transaction, scope: EffectScope, effect: PromiseLike<T>, wait: Wait): Promise<T> {
    try {
      const value = await effect;
      scope.end();
      await tx.commit(this.#wait(wait.context.token, wait.signal));
      return value;
    } catch (error) {
      scope.end();
      tx.undo(error);
      throw error;
    } finally {
      this.#connection.leaveTurn();
    }
  }

  async #inTurn<T>(wait: Wait, act: (wait: Wait) => Promise<T>): Promise<T> {
    wait.signal?.throwIfAborted();
    if (!this.#connection.tryTurn()) await this.#connection.turn(wait);
    try {
      return await act(wait);
    } finally {
      this.#connection.leaveTurn();
    }
  }

  #read(): unknown {
    return this.#connection.get(this.#sql.read, this.resource);
  }

  #state(): GuardState | undefined {
    return parseState(this.resource, this.#read());
  }

  #refuseInside(): void {
    EffectScope.refuse(this.#connection.held, this.resource);
  }

  #wait(token: FencingToken | undefined, signal: AbortSignal | undefined): Wait {
    return { until: performance.now() + this.#busyTimeoutMs, signal, context: this.#context(token) };
  }

  #context(token: FencingToken | undefined): ErrorContext {
    return { resource: this.resource, token, table: this.#sql.table };
  }
}
