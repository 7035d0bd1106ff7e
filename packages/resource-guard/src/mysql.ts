// The guard for rows in MySQL and MariaDB. Safety rests on two facts: a run commits while it shares the lock on
// the guard's row, and the row changes only under the same lock held exclusively.
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
import { DecidingGuard, type Step } from './deciding-guard.ts';
import { EffectScope, type Held } from './effect-scope.ts';
import { LastSeen } from './last-seen.ts';
import {
  checkQueryable,
  checkSource,
  coreOf,
  isPool,
  type MysqlConnection,
  type MysqlPool,
  type MysqlQueryable,
  type MysqlResult,
  queryFor,
} from './mysql/client.ts';
import { type ErrorContext, make, notApplied, serverErrno } from './mysql/errors.ts';
import { migrate } from './mysql/migrate.ts';
import { type Row, readAnswer } from './mysql/reply.ts';
import { checkSingle, runSingle } from './mysql/single.ts';
import {
  createTable,
  type GuardSql,
  guardSql,
  type MysqlDialect,
  type MysqlGuardTable,
  parseState,
  tableName,
} from './mysql/sql.ts';
import { type MysqlTransaction, newMark, Transaction } from './mysql/transaction.ts';
import type { Source } from './mysql/turn.ts';
import { checkEffect, checkFlag, checkMs, checkToken, invalid } from './options.ts';

export type {
  MysqlConnection,
  MysqlPool,
  MysqlPoolConnection,
  MysqlQuery,
  MysqlQueryable,
  MysqlResult,
} from './mysql/client.ts';
export type { MysqlDialect, MysqlGuardTable } from './mysql/sql.ts';
export type { MysqlTransaction } from './mysql/transaction.ts';

export interface MysqlGuardOptions extends MysqlGuardTable {
  /** The name of what is guarded: non-empty, at most 1,024 bytes of UTF-8. */
  readonly resource: string;
  /** Reject tokens that never claimed with `unclaimed`. Default `false`. */
  readonly requireClaim?: boolean | undefined;
  /**
   * How long a claim or a seal waits for the runs in flight before it fails with `timeout`. Default 20,000
   * ms: longer than a frozen run can last. MySQL counts whole seconds, rounded up.
   */
  readonly claimTimeoutMs?: number | undefined;
  /**
   * Inside a run, the longest wait for a lock (`innodb_lock_wait_timeout`, whole seconds, rounded up), the wait
   * for its turn included. On MariaDB also the longest that a statement of the effect may take
   * (`max_statement_time`). Default 10,000 ms. Replaces the session's own settings for that time.
   */
  readonly statementTimeoutMs?: number | undefined;
  /**
   * How long a writer may do nothing between two statements before the server undoes its run and drops the
   * connection: `idle_transaction_timeout` on MariaDB, `wait_timeout` on MySQL, in whole seconds, rounded up.
   * Default 5,000 ms. Replaces the session's own setting for that time.
   */
  readonly idleInTransactionTimeoutMs?: number | undefined;
  /**
   * How the server is spoken to. `mariadb` sends several statements as one (`BEGIN NOT ATOMIC … END`), in one
   * round trip; `mysql` sends each on its own, which every server and every proxy in between understands.
   * Default: what the server says of itself, asked once for each pool.
   */
  readonly dialect?: MysqlDialect | undefined;
}

/** A guard whose effects are statements of one transaction. */
export interface MysqlGuard extends Guard<MysqlTransaction>, GuardAdmin {
  /**
   * Runs one statement under `token`: a run with the fewest round trips. On MariaDB the turn, the check, the
   * statement and COMMIT leave in one message; on MySQL they are a run. A token newer than the state claims first.
   *
   * @param sql - one statement that stays inside a transaction.
   * @param values - for its placeholders, put in by the driver's `format`.
   * @returns like `query` of `mysql2`; `affectedRows` and `insertId` are what the statement did.
   * @throws {@link GuardError}, or the driver's own error where the server refused the statement.
   */
  query<Result = unknown>(
    token: FencingToken,
    sql: string,
    // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver converts
    values?: any,
    options?: RunOptions,
  ): Promise<MysqlResult<Result>>;

  /**
   * Checks `token` inside a transaction of the caller's own and keeps it in force until that transaction
   * ends: no newer claim gets through before its COMMIT or ROLLBACK.
   *
   * Every isolation level works. Claim before the transaction first reads: under REPEATABLE READ one whose
   * snapshot shows another state of the guard than the latest is refused as `retry`. A token that never claimed
   * is always `unclaimed`.
   *
   * The caller's settings stay, so a frozen caller holds up claims until the server drops it: set
   * `idle_transaction_timeout` (MariaDB) or `wait_timeout` for such sessions. After any error the caller rolls
   * back. COMMIT is the caller's: a lost reply to it means that nobody knows, and so does a statement that
   * commits silently.
   *
   * @param connection - whatever runs statements in that transaction: a `mysql2/promise` connection, or an
   * adapter whose `query` resolves with the rows, `{ rows }` or `[rows, columns]`.
   * @throws {@link GuardError} `invalid-option` where no transaction is open.
   */
  enter(connection: MysqlQueryable, token: FencingToken, options?: GuardCallOptions): Promise<void>;

  /**
   * Creates the guard's table unless it exists. Idempotent, and safe from many processes at once. The database
   * must exist.
   * @throws {@link GuardError} `not-migrated` where the table exists in another engine than InnoDB.
   */
  migrate(): Promise<void>;
}

/**
 * A guard for InnoDB rows in MySQL 8.0 or MariaDB 10.6, and later, over a pool or a connection of
 * `mysql2/promise`. Tables of engines without transactions, such as MyISAM, cannot be guarded.
 *
 * - **Runs of one holder are parallel** transactions in the session's own isolation level, their snapshot taken
 *   after the guard let them in. On a connection, which can carry one transaction at a time, calls queue; do not
 *   send it anything else while a call is pending.
 * - **A claim drains**: it waits for the runs in flight and is not overtaken by later ones. What it promises is
 *   as durable as every commit of that server: `innodb_flush_log_at_trx_commit = 1`, and `sync_binlog = 1`
 *   with a binary log. Replicas that take over may have missed it.
 * - **The first run of a newer token** claims for it, in a transaction before its own. A `run` alone accepts
 *   a late write that arrives before the new holder's first request: claim at hand-over.
 * - **A frozen writer** is ended by the server after `idleInTransactionTimeoutMs`; then the call fails, even if
 *   its effect never settles. On MySQL nothing limits a statement that works without waiting for a lock.
 * - **Only the transaction that the guard opened is committed.** Statements that would end it are refused.
 * - **Outcomes**: `retry` for deadlocks, `unknown` once COMMIT was sent and its reply lost, else nothing was
 *   applied. A signal that aborts before COMMIT rejects with its reason and nothing is applied; on a pool the
 *   connection is dropped.
 *
 * Inside an effect write through the handle. A call of the same guard would wait for that effect, so there it
 * is refused with `invalid-option`, awaited or not; on a connection, that is every guard on it. Through another
 * pool it waits until a timeout.
 *
 * @param pool - stays the caller's: the guard opens and closes no pool. Without `multipleStatements`.
 * @throws {@link GuardError} `invalid-option`
 */
export function mysqlGuard(pool: MysqlPool | MysqlConnection, options: MysqlGuardOptions): MysqlGuard {
  return new GuardOnMysql(pool, options);
}

/** The SQL that creates the guard's table, for migrations of your own. Running it again does nothing. */
export function mysqlGuardSql(options: MysqlGuardTable = {}): string {
  return createTable(tableName(options));
}

function checkDialect(value: unknown): MysqlDialect | undefined {
  if (value === undefined || value === 'mariadb' || value === 'mysql') return value;
  throw invalid('dialect', value, 'expected "mariadb" or "mysql"');
}

type Effect<T> = (handle: MysqlTransaction) => T | Promise<T>;

class GuardOnMysql extends DecidingGuard implements MysqlGuard {
  readonly #source: Source;
  readonly #requireClaim: boolean;
  readonly #named: MysqlGuardTable;
  readonly #table: string;
  readonly #sql: GuardSql;
  readonly #held: Held;
  readonly #seen: LastSeen;

  constructor(pool: unknown, options: MysqlGuardOptions) {
    super(options?.resource);
    const server = checkSource(pool);
    this.#source = { server, dialect: checkDialect(options.dialect) };
    this.#requireClaim = checkFlag('requireClaim', options.requireClaim, false);
    this.#named = { database: options.database, table: options.table };
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
    // A connection carries one transaction, whosever it is.
    const lock = isPool(this.#source.server) ? this.#sql.lock : undefined;
    this.#held = { source: coreOf(this.#source.server), lock };
    this.#seen = new LastSeen(this.resource);
  }

  async inspect(options: GuardCallOptions = {}): Promise<GuardState | undefined> {
    if (!isPool(this.#source.server)) EffectScope.refuse(this.#held, this.resource);
    const open = (dialect: MysqlDialect) => this.#sql.openRead(dialect);
    const { tx, row } = await Transaction.open(this.#source, open, this.#context(undefined), options.signal);
    await tx.rollback();
    return parseState(this.resource, row);
  }

  async run<T>(presented: FencingToken, effect: Effect<T>, options: RunOptions = {}): Promise<T> {
    const token = checkToken(presented);
    checkEffect(effect);
    EffectScope.refuse(this.#held, this.resource);
    const requireClaim = checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    const first = await this.#attempt(token, effect, requireClaim, options.signal);
    if (first.ran) return first.value;
    await this.#claimFor(token, options.signal);
    const second = await this.#attempt(token, effect, true, options.signal);
    if (second.ran) return second.value;
    throw make('retry', 'the state changed meanwhile', undefined, this.#context(token));
  }

  async query<Result = unknown>(
    presented: FencingToken,
    sql: string,
    values?: unknown,
    options: RunOptions = {},
  ): Promise<MysqlResult<Result>> {
    const token = checkToken(presented);
    checkSingle(sql);
    EffectScope.refuse(this.#held, this.resource);
    checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    const single = { expected: this.#seen.expectedFor(token), sql, values };
    const outcome = await runSingle(this.#source, this.#sql, single, this.#context(token), options.signal);
    if (outcome !== undefined) return outcome;
    // Nothing was applied: the state is another one, or the server takes one statement at a time.
    return this.run(token, (tx) => tx.query<Result>(sql, values), options);
  }

  /**
   * For a run of a token newer than the state. Runs of older tokens may be in flight beside it: only a claim
   * drains them, and a shared lock must not be upgraded, or two such runs would wait for each other.
   */
  async #claimFor(token: FencingToken, signal: AbortSignal | undefined): Promise<void> {
    await this.take(this.stepOf('claim', token, signal)).catch((error: unknown) => {
      const lost = error instanceof GuardError && error.code === 'unknown';
      throw lost ? make('unavailable', 'the effect did not run', error, this.#context(token)) : error;
    });
  }

  /** One transaction under the shared lock. It cannot run the effect where the state has to advance first. */
  async #attempt<T>(
    token: FencingToken,
    effect: Effect<T>,
    requireClaim: boolean,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly ran: true; readonly value: T } | { readonly ran: false }> {
    const open = (dialect: MysqlDialect) => this.#sql.openShared(dialect, newMark());
    const { tx, row } = await Transaction.open(this.#source, open, this.#context(token), signal);
    const scope = new EffectScope(this.#held);
    let value: T;
    try {
      const state = parseState(this.resource, row);
      this.#seen.note(state);
      const decision = decideGuard('run', this.resource, state, token, { requireClaim });
      if (decision.verdict === 'reject') throw decision.error;
      if (decision.next !== undefined) {
        await tx.rollback();
        return { ran: false };
      }
      const handle: MysqlTransaction = {
        query: (query, values) => tx.query(query, values),
        execute: (query, values) => tx.execute(query, values),
      };
      value = await untilAborted(tx.whileConnected(scope.run(() => effect(handle))), signal);
    } catch (error) {
      if (signal?.aborted) tx.abandon();
      else await tx.rollback();
      throw tx.toldOf(error);
    } finally {
      scope.end();
    }
    await tx.commit(undefined, signal);
    return { ran: true, value };
  }

  protected async take({ token, signal, decide }: Step): Promise<void> {
    const context = this.#context(token);
    EffectScope.refuse(this.#held, this.resource);
    for (let tries = 1; tries <= 2; tries++) {
      const open = (dialect: MysqlDialect) => this.#sql.openExclusive(dialect);
      const { tx, row } = await Transaction.open(this.#source, open, context, signal);
      let decision: GuardDecision;
      try {
        decision = decide(parseState(this.resource, row));
      } catch (error) {
        await tx.rollback();
        throw error;
      }
      if (decision.verdict === 'reject' || decision.next === undefined) {
        await tx.rollback();
        if (decision.verdict === 'reject') throw decision.error;
        return;
      }
      if (row !== undefined) {
        await tx.commit(this.#sql.advance(decision.next), signal);
        this.#seen.note(decision.next);
        return;
      }
      // Where there is no row there is nothing to lock: two that store the first one could not see each other.
      await tx.rollback();
      await this.#makeRow(context, signal);
    }
    throw make('retry', "the guard's row was removed meanwhile", undefined, context);
  }

  async #makeRow(context: ErrorContext, signal: AbortSignal | undefined): Promise<void> {
    const open = (dialect: MysqlDialect) => this.#sql.openRow(dialect);
    const { tx } = await Transaction.open(this.#source, open, context, signal);
    await tx.commit(undefined, signal).catch((error: unknown) => {
      const lost = error instanceof GuardError && error.code === 'unknown' && !signal?.aborted;
      throw lost ? make('unavailable', 'nothing was claimed yet', error, context) : error;
    });
  }

  async enter(
    connection: MysqlQueryable,
    presented: FencingToken,
    options: GuardCallOptions = {},
  ): Promise<void> {
    const target = checkQueryable(connection);
    const token = checkToken(presented);
    const ask = async (sql: string): Promise<Row> => {
      options.signal?.throwIfAborted();
      return readAnswer(
        await untilAborted(Promise.resolve(target.query(queryFor(target, sql))), options.signal),
      );
    };
    try {
      const row = await ask(this.#sql.enter);
      const savepoint = newMark();
      await ask(`SAVEPOINT ${savepoint}`);
      await ask(`RELEASE SAVEPOINT ${savepoint}`);
      const state = parseState(this.resource, row);
      const decision = decideGuard('run', this.resource, state, token, { requireClaim: true });
      if (decision.verdict === 'reject') throw decision.error;
      if ((await ask(this.#sql.asSeen)) === row) return;
    } catch (error) {
      if (options.signal?.aborted) throw error;
      // Outside of a transaction a savepoint is forgotten at once.
      if (serverErrno(error) !== 1305) throw notApplied(error, this.#context(token));
      const what = 'connection has no open transaction; send START TRANSACTION first';
      throw new GuardError('invalid-option', `guard "${this.resource}": ${what}`);
    }
    const what = "the transaction's snapshot is older than the newest claim; begin it after the claim";
    throw make('retry', what, undefined, this.#context(token));
  }

  async migrate(): Promise<void> {
    if (!isPool(this.#source.server)) EffectScope.refuse(this.#held, this.resource);
    await migrate(this.#source, this.#named, this.#context(undefined));
  }

  #context(token: FencingToken | undefined): ErrorContext {
    return { resource: this.resource, token, table: this.#table };
  }
}
