// The guard for rows in PostgreSQL. Safety rests on two facts: a run commits while it shares the resource's
// advisory lock, and the guard's state changes only under the same lock held exclusively.
import {
  decideGuard,
  type FencingToken,
  type Guard,
  type GuardAdmin,
  type GuardCallOptions,
  type GuardDecision,
  GuardError,
  type GuardState,
  type RunOptions,
} from '@lockkeeper/fencing';
import { untilAborted } from './abort.ts';
import { DecidingGuard, type Step, spoilsNoRun } from './deciding-guard.ts';
import { EffectScope, type Held } from './effect-scope.ts';
import { LastSeen } from './last-seen.ts';
import { checkEffect, checkFlag, checkMs, checkToken } from './options.ts';
import {
  checkQueryable,
  checkSource,
  isPool,
  type PostgresClient,
  type PostgresPool,
  type PostgresQuery,
  type PostgresQueryable,
  type PostgresResult,
} from './postgres/client.ts';
import { ownText } from './postgres/driver.ts';
import { type ErrorContext, isRetry, make, notApplied } from './postgres/errors.ts';
import { Mark } from './postgres/mark.ts';
import {
  isPostgresJs,
  type PostgresJs,
  type PostgresJsTransaction,
  postgresJsPool,
  queryableOf,
} from './postgres/postgres-js.ts';
import { callWithSql } from './postgres/postgres-js-handle.ts';
import { checkQuery, queryOnce, queryThrough, staysInTransaction } from './postgres/query.ts';
import {
  createTable,
  type GuardSql,
  type GuardTable,
  guardSql,
  migration,
  parseState,
  tableName,
} from './postgres/sql.ts';
import { type PostgresTransaction, Transaction } from './postgres/transaction.ts';
import { formatStoredState } from './stored-state.ts';

export type {
  PostgresClient,
  PostgresPool,
  PostgresPoolClient,
  PostgresQuery,
  PostgresQueryable,
  PostgresResult,
} from './postgres/client.ts';
export type { PostgresJs, PostgresJsTransaction } from './postgres/postgres-js.ts';
export type { GuardTable } from './postgres/sql.ts';
export type { PostgresTransaction } from './postgres/transaction.ts';
export {
  type PostgresGuardTriggerOptions,
  type PostgresGuardTriggerSql,
  postgresGuardTriggerSql,
} from './postgres/trigger.ts';

export interface PostgresGuardOptions extends GuardTable {
  /** The name of what is guarded: non-empty, at most 1,024 bytes of UTF-8. */
  readonly resource: string;
  /** Reject tokens that never claimed with `unclaimed`. Default `false`. */
  readonly requireClaim?: boolean | undefined;
  /**
   * How long a claim or a seal waits for the runs in flight before it fails with `timeout`. Default 20,000
   * ms: longer than a frozen run can last, which is `statementTimeoutMs` + `idleInTransactionTimeoutMs`.
   */
  readonly claimTimeoutMs?: number | undefined;
  /**
   * PostgreSQL's `statement_timeout` inside a run: the longest any one statement may take, the wait for its
   * turn included. Default 10,000 ms. Replaces the session's own setting.
   */
  readonly statementTimeoutMs?: number | undefined;
  /**
   * PostgreSQL's `idle_in_transaction_session_timeout` inside a run: how long a writer may do nothing between
   * two statements before PostgreSQL undoes its run and drops the connection. Default 5,000 ms.
   */
  readonly idleInTransactionTimeoutMs?: number | undefined;
}

/**
 * A guard whose effects are statements of one transaction.
 * @typeParam Handle - what an effect writes through: with `pg` a {@link PostgresTransaction}, with postgres.js
 * the `TransactionSql` that its `sql.begin` gives.
 */
export interface PostgresGuard<Handle = PostgresTransaction> extends Guard<Handle>, GuardAdmin {
  /**
   * Runs one statement under `token` and commits it. Turn, check, statement and commit leave in one round trip,
   * as statements of their own: the shortest guarded write there is. Where `token` is newer than the state, a
   * claim goes before.
   *
   * INSERT, UPDATE, DELETE, MERGE, SELECT, WITH, VALUES and TABLE take that way, over `pg` in JavaScript without
   * pipeline mode, in sessions whose default is READ COMMITTED and READ WRITE. Everything else (a statement that
   * begins with a comment too) is served by {@link PostgresGuard.run}, with the same outcome.
   *
   * Rejects like `run` where the token is refused. An error of the statement is the driver's own and nothing was
   * applied, except: serialization failure and deadlock are {@link GuardError} `retry`; what took longer than
   * `statementTimeoutMs`, or the session's own `lock_timeout`, is `timeout`. A lost reply is `unknown`, and so is
   * a signal that aborts once the message was sent.
   *
   * @param query - one statement, as text or as `pg`'s object with `text`, `values`, `name`, `rowMode`, `types`.
   * @param values - its parameters, `$1` first.
   * @returns `pg`'s own result; over postgres.js one of the same form.
   */
  query<Row = Record<string, unknown>>(
    token: FencingToken,
    query: string | PostgresQuery,
    // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver converts
    values?: any[],
    options?: RunOptions,
  ): Promise<PostgresResult<Row>>;

  /**
   * Checks `token` inside a transaction of the caller's own and keeps it in force until that transaction
   * ends: no newer claim gets through before its COMMIT or ROLLBACK.
   *
   * READ COMMITTED, REPEATABLE READ and SERIALIZABLE all work. Claim before the transaction takes its
   * snapshot (before its first statement): one whose snapshot is older than the newest claim is refused,
   * as `retry`, or as `unclaimed` where it cannot see any claim at all. A token that never claimed is always
   * `unclaimed`: a transaction that shares the resource cannot also advance it.
   *
   * The caller's timeouts stay, but `idle_in_transaction_session_timeout` is set for this transaction where
   * it is off. After any error the caller rolls back. COMMIT is the caller's: a lost reply to it means that
   * nobody knows.
   *
   * @param tx - whatever runs statements in that transaction: a `pg` client, or an adapter whose `query`
   * resolves with `{ rows }` or with the rows, or the `sql` of `sql.begin` of postgres.js.
   * @throws {@link GuardError} `invalid-option` where no transaction is open.
   */
  enter(
    tx: PostgresQueryable | PostgresJsTransaction,
    token: FencingToken,
    options?: GuardCallOptions,
  ): Promise<void>;

  /**
   * Creates the guard's table unless it exists. Idempotent, and safe from many processes at once. The schema
   * must exist. On a Client it waits for the calls before it.
   */
  migrate(): Promise<void>;
}

/**
 * A guard for rows in PostgreSQL 13 or later, over a `pg` Pool or a connected `pg` Client.
 *
 * - **Runs of one holder are parallel** transactions in READ COMMITTED. On a Client, which can carry one
 *   transaction at a time, calls queue; do not send it anything else while a call is pending.
 * - **A claim drains**: it waits for the runs in flight and is not overtaken by later ones (a reader's, of a
 *   read/write lock, only for writers' runs). What it then
 *   promises is committed with `synchronous_commit` at least `on`. Asynchronous replicas that take over may
 *   have missed it.
 * - **The first run of a newer token** claims for it, in a transaction before its own. A `run` alone accepts
 *   a late write that arrives before the new holder's first request: claim at hand-over.
 * - **A frozen writer** is ended by PostgreSQL after `idleInTransactionTimeoutMs`, a statement after
 *   `statementTimeoutMs`; then the call fails, even if its effect never settles. One that stopped while reading
 *   a result larger than its socket's buffers is beyond both: `pg_terminate_backend` ends it.
 * - **Only the transaction that the guard opened is committed.** An effect that ends it gets nothing more
 *   through, and its run is `unknown`.
 * - **Outcomes**: `retry` for serialization failures and deadlocks, `unknown` once COMMIT was sent and its
 *   reply lost, else nothing was applied. A signal that aborts before COMMIT rejects with its reason and
 *   nothing is applied; on a Pool the connection is dropped.
 * - All locks are released by the end of the transaction, so a pooler in transaction mode may stand between.
 *
 * Inside an effect write through the handle. A call of the same guard would wait for that effect, so there it
 * is refused with `invalid-option`, awaited or not; on a Client, that is every guard on that Client. Through
 * another pool it waits until a timeout.
 *
 * @param pool - stays the caller's: the guard opens and closes no pool.
 * @throws {@link GuardError} `invalid-option`
 */
export function postgresGuard(
  pool: PostgresPool | PostgresClient,
  options: PostgresGuardOptions,
): PostgresGuard;
/**
 * A guard for rows in PostgreSQL 13 or later, over postgres.js: the `sql` that `postgres()` of the package
 * "postgres" 3.4 returns. Everything said of a Pool holds; each call keeps one connection of the instance.
 *
 * The effect gets a `sql` of the guarded transaction, as from `sql.begin`: tagged templates, fragments,
 * helpers, cursors, `savepoint`, and of an array that it returns every query is awaited. Other than there,
 * queries are sent one after another, each is one statement (`simple()` has no effect), one after the loss of
 * the connection rejects with `unavailable`, and `readable()`, `writable()` and `prepare()` are refused.
 *
 * @throws {@link GuardError} `invalid-option`, also for an instance whose `transform` hides the guard's own rows.
 */
export function postgresGuard<Tx>(sql: PostgresJs<Tx>, options: PostgresGuardOptions): PostgresGuard<Tx>;
export function postgresGuard(
  source: PostgresPool | PostgresClient | PostgresJs,
  options: PostgresGuardOptions,
): PostgresGuard<never> {
  return new GuardOnPostgres(source, options);
}

/** The SQL that creates the guard's table, for migrations of your own. Running it again does nothing. */
export function postgresGuardSql(options: GuardTable = {}): string {
  return createTable(tableName(options));
}

class GuardOnPostgres<Handle> extends DecidingGuard implements PostgresGuard<Handle> {
  readonly #source: PostgresPool | PostgresClient;
  readonly #requireClaim: boolean;
  readonly #table: string;
  readonly #sql: GuardSql;
  readonly #held: Held;
  readonly #seen: LastSeen;
  /** Sessions of this source are of another kind than one message can do with. */
  #needsBegin: boolean;
  readonly #call: <T>(effect: (handle: Handle) => T | Promise<T>, tx: Transaction) => T | Promise<T>;

  constructor(pool: unknown, options: PostgresGuardOptions) {
    super(options?.resource);
    const sql = isPostgresJs(pool) ? pool : undefined;
    this.#source = sql === undefined ? checkSource(pool) : postgresJsPool(sql);
    this.#needsBegin = sql !== undefined;
    this.#call = (effect, tx) => {
      if (sql !== undefined) return callWithSql(sql, tx, effect as never) as never;
      const handle: PostgresTransaction = { query: (query, values) => tx.query(query, values) };
      return effect(handle as Handle);
    };
    this.#requireClaim = checkFlag('requireClaim', options.requireClaim, false);
    this.#table = tableName(options);
    this.#sql = guardSql(this.#table, this.resource, {
      claimTimeoutMs: checkMs('claimTimeoutMs', options.claimTimeoutMs, 20_000),
      statementTimeoutMs: checkMs('statementTimeoutMs', options.statementTimeoutMs, 10_000),
      idleInTransactionTimeoutMs: checkMs(
        'idleInTransactionTimeoutMs',
        options.idleInTransactionTimeoutMs,
        5_000,
      ),
    });
    // A Client carries one transaction, whosever it is.
    const lock = isPool(this.#source) ? this.#sql.lock : undefined;
    this.#held = { source: this.#source, lock };
    this.#seen = new LastSeen(this.resource);
  }

  async run<T>(
    presented: FencingToken,
    effect: (handle: Handle) => T | Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const token = checkToken(presented);
    checkEffect(effect);
    EffectScope.refuse(this.#held, this.resource);
    const requireClaim = checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    const first = await this.#attempt(token, effect, requireClaim, options.signal);
    if (first.ran) return first.value;
    await this.#claimFirst(token, options.signal);
    const second = await this.#attempt(token, effect, true, options.signal);
    if (second.ran) return second.value;
    throw make('retry', 'the state changed meanwhile', undefined, this.#context(token));
  }

  async query<Row>(
    presented: FencingToken,
    query: string | PostgresQuery,
    values?: unknown[],
    options: RunOptions = {},
  ): Promise<PostgresResult<Row>> {
    const token = checkToken(presented);
    const statement = checkQuery(query, values);
    EffectScope.refuse(this.#held, this.resource);
    let requireClaim = checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    const context = this.#context(token);
    for (let claimed = false; !this.#needsBegin && staysInTransaction(statement); ) {
      const expected = this.#seen.expectedFor(token);
      const told = await queryOnce(
        this.#source,
        this.#sql,
        token,
        expected,
        statement,
        context,
        options.signal,
      );
      if (told.ending === 'applied') return told.result as PostgresResult<Row>;
      if (told.ending === 'elsewhere') break;
      this.#seen.note(told.state);
      const decision = decideGuard('run', this.resource, told.state, token, { requireClaim });
      if (decision.verdict === 'reject') throw decision.error;
      if (decision.next === undefined && told.state !== undefined) {
        // A reader finds the states that other readers left behind. As expected it was the session that did not fit.
        if (formatStoredState(told.state) === expected) this.#needsBegin = true;
        break;
      }
      if (claimed) throw make('retry', 'the state changed meanwhile', undefined, context);
      await this.#claimFirst(token, options.signal);
      claimed = requireClaim = true;
    }
    return this.run(token, (handle) => queryThrough<Row>(handle, statement), { ...options, requireClaim });
  }

  /**
   * For a token newer than the state. Runs of older tokens may be in flight beside this one: only a claim drains
   * them, and a shared lock must not be upgraded, or two such runs would wait for each other.
   */
  async #claimFirst(token: FencingToken, signal: AbortSignal | undefined): Promise<void> {
    await this.take(this.stepOf('claim', token, signal)).catch((error: unknown) => {
      const lost = error instanceof GuardError && error.code === 'unknown';
      throw lost ? make('unavailable', 'the effect did not run', error, this.#context(token)) : error;
    });
  }

  /** One transaction under the shared lock. It cannot run the effect where the state has to advance first. */
  async #attempt<T>(
    token: FencingToken,
    effect: (handle: Handle) => T | Promise<T>,
    requireClaim: boolean,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly ran: true; readonly value: T } | { readonly ran: false }> {
    const mark = new Mark();
    const opening = { statements: this.#sql.openShared(token, mark.value), mark };
    const { tx, rows } = await Transaction.open(this.#source, opening, this.#context(token), signal);
    const scope = new EffectScope(this.#held);
    let value: T;
    try {
      const state = parseState(this.resource, rows);
      this.#seen.note(state);
      const decision = decideGuard('run', this.resource, state, token, { requireClaim });
      if (decision.verdict === 'reject') throw decision.error;
      if (decision.next !== undefined) {
        await tx.rollback();
        return { ran: false };
      }
      const work = scope.run(() => this.#call(effect, tx));
      value = await untilAborted(tx.whileConnected(work), signal);
    } catch (error) {
      if (signal?.aborted) tx.abandon();
      else await tx.rollback();
      throw tx.toldOf(error);
    } finally {
      scope.end();
    }
    await tx.commit(signal);
    return { ran: true, value };
  }

  async inspect(options: GuardCallOptions = {}): Promise<GuardState | undefined> {
    if (!isPool(this.#source)) EffectScope.refuse(this.#held, this.resource);
    const opening = { statements: this.#sql.look };
    const { tx, rows } = await Transaction.open(
      this.#source,
      opening,
      this.#context(undefined),
      options.signal,
    );
    await tx.rollback();
    return parseState(this.resource, rows);
  }

  protected async take(step: Step): Promise<void> {
    EffectScope.refuse(this.#held, this.resource);
    if (step.token.shared && (await this.#takeAs('beside', step))) return;
    if (await this.#takeAs('alone', step)) return;
    const context = this.#context(step.token);
    throw make('retry', 'the state was changed by something that is not a guard', undefined, context);
  }

  /** @returns whether it was taken: not beside runs that it might spoil, nor where another step came first. */
  async #takeAs(how: 'alone' | 'beside', { token, signal, decide }: Step): Promise<boolean> {
    const context = this.#context(token);
    const opening = { statements: how === 'alone' ? this.#sql.openExclusive : this.#sql.openBeside };
    const { tx, rows } = await Transaction.open(this.#source, opening, context, signal);
    let state: GuardState | undefined;
    let decision: GuardDecision;
    try {
      state = parseState(this.resource, rows);
      decision = decide(state);
    } catch (error) {
      await tx.rollback();
      throw error;
    }
    const mayTake = how === 'alone' || spoilsNoRun(state, decision);
    if (!mayTake || decision.verdict === 'reject' || decision.next === undefined) {
      await tx.rollback();
      if (decision.verdict === 'reject') throw decision.error;
      return mayTake;
    }
    if ((await tx.commit(signal, this.#sql.replace(state, decision.next))) !== 1) return false;
    this.#seen.note(decision.next);
    return true;
  }

  async enter(
    tx: PostgresQueryable | PostgresJsTransaction,
    presented: FencingToken,
    options: GuardCallOptions = {},
  ): Promise<void> {
    const target = checkQueryable(queryableOf(tx));
    const token = checkToken(presented);
    const context = this.#context(token);
    const ask = async (statement: string): Promise<readonly unknown[]> => {
      options.signal?.throwIfAborted();
      const asked = Promise.resolve(target.query(ownText(target, statement))).catch((error: unknown) => {
        throw notApplied(error, context);
      });
      const reply = await untilAborted(asked, options.signal);
      return Array.isArray(reply)
        ? reply
        : ((reply as { readonly rows?: unknown[] } | undefined)?.rows ?? []);
    };

    await ask(this.#sql.enter);
    let rows = await ask(this.#sql.entered(token));
    const { isolation, open } = rows[0] as { readonly isolation: string; readonly open: string };
    if (open !== '1') {
      throw new GuardError(
        'invalid-option',
        `guard "${this.resource}": tx has no open transaction; send BEGIN first`,
      );
    }
    // A snapshot taken before the lock was granted shows an old state; locking the row shows the latest one.
    if (isolation !== 'read committed' && isolation !== 'read uncommitted')
      rows = await ask(this.#sql.enteredLatest);
    const decision = decideGuard('run', this.resource, parseState(this.resource, rows), token, {
      requireClaim: true,
    });
    if (decision.verdict === 'reject') throw decision.error;
  }

  async migrate(): Promise<void> {
    if (!isPool(this.#source)) EffectScope.refuse(this.#held, this.resource);
    const [begin = '', ...rest] = migration(this.#table);
    const context = this.#context(undefined);
    const { tx } = await Transaction.open(this.#source, { statements: begin }, context, undefined);
    try {
      for (const statement of rest.slice(0, -1)) await tx.query(statement);
    } catch (error) {
      await tx.rollback();
      const what = `creating ${this.#table} failed`;
      throw make(isRetry(error) ? 'retry' : 'unavailable', what, error, context);
    }
    await tx.commit(undefined);
  }

  #context(token: FencingToken | undefined): ErrorContext {
    return { resource: this.resource, token, table: this.#table };
  }
}
