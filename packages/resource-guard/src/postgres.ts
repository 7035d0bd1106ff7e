// The guard for rows in PostgreSQL. Safety rests on two facts: a run commits while it shares the resource's
// advisory lock, and the guard's state changes only under the same lock held exclusively.
import {
  decideGuard,
  type FencingToken,
  type Guard,
  type GuardCallOptions,
  GuardError,
  type RunOptions,
} from '@lockkeeper/fencing';
import { untilAborted } from './abort.ts';
import { EffectScope, type Held } from './effect-scope.ts';
import { checkEffect, checkFlag, checkMs, checkResource, checkToken } from './options.ts';
import {
  checkQueryable,
  checkSource,
  isPool,
  type PostgresClient,
  type PostgresPool,
  type PostgresQueryable,
} from './postgres/client.ts';
import { type ErrorContext, isRetry, make, notApplied } from './postgres/errors.ts';
import { Mark } from './postgres/mark.ts';
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

export type {
  PostgresClient,
  PostgresPool,
  PostgresPoolClient,
  PostgresQuery,
  PostgresQueryable,
  PostgresResult,
} from './postgres/client.ts';
export type { GuardTable } from './postgres/sql.ts';
export type { PostgresTransaction } from './postgres/transaction.ts';

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

/** A guard whose effects are statements of one transaction. */
export interface PostgresGuard extends Guard<PostgresTransaction> {
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
   * resolves with `{ rows }` or with the rows.
   * @throws {@link GuardError} `invalid-option` where no transaction is open.
   */
  enter(tx: PostgresQueryable, token: FencingToken, options?: GuardCallOptions): Promise<void>;

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
 * - **A claim drains**: it waits for the runs in flight and is not overtaken by later ones. What it then
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
): PostgresGuard {
  return new GuardOnPostgres(pool, options);
}

/** The SQL that creates the guard's table, for migrations of your own. Running it again does nothing. */
export function postgresGuardSql(options: GuardTable = {}): string {
  return createTable(tableName(options));
}

class GuardOnPostgres implements PostgresGuard {
  readonly resource: string;
  readonly #source: PostgresPool | PostgresClient;
  readonly #requireClaim: boolean;
  readonly #table: string;
  readonly #sql: GuardSql;
  readonly #held: Held;

  constructor(pool: unknown, options: PostgresGuardOptions) {
    this.#source = checkSource(pool);
    this.resource = checkResource(options?.resource);
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
  }

  async claim(token: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    await this.#advance('claim', checkToken(token), options.signal);
  }

  async seal(token: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    await this.#advance('seal', checkToken(token), options.signal);
  }

  async run<T>(
    presented: FencingToken,
    effect: (handle: PostgresTransaction) => T | Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const token = checkToken(presented);
    checkEffect(effect);
    EffectScope.refuse(this.#held, this.resource);
    const requireClaim = checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    const first = await this.#attempt(token, effect, requireClaim, options.signal);
    if (first.ran) return first.value;
    // Newer than the state. Runs of older tokens may be in flight beside this one: only a claim drains them,
    // and a shared lock must not be upgraded, or two such runs would wait for each other.
    await this.#advance('claim', token, options.signal).catch((error: unknown) => {
      const lost = error instanceof GuardError && error.code === 'unknown';
      throw lost ? make('unavailable', 'the effect did not run', error, this.#context(token)) : error;
    });
    const second = await this.#attempt(token, effect, true, options.signal);
    if (second.ran) return second.value;
    throw make('retry', 'the state changed meanwhile', undefined, this.#context(token));
  }

  /** One transaction under the shared lock. It cannot run the effect where the state has to advance first. */
  async #attempt<T>(
    token: FencingToken,
    effect: (handle: PostgresTransaction) => T | Promise<T>,
    requireClaim: boolean,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly ran: true; readonly value: T } | { readonly ran: false }> {
    const mark = new Mark();
    const opening = { statements: this.#sql.openShared(mark), mark };
    const { tx, rows } = await Transaction.open(this.#source, opening, this.#context(token), signal);
    const scope = new EffectScope(this.#held);
    let value: T;
    try {
      const decision = decideGuard('run', this.resource, parseState(rows), token, { requireClaim });
      if (decision.verdict === 'reject') throw decision.error;
      if (decision.next !== undefined) {
        await tx.rollback();
        return { ran: false };
      }
      const handle: PostgresTransaction = { query: (query, values) => tx.query(query, values) };
      value = await untilAborted(tx.whileConnected(scope.run(() => effect(handle))), signal);
    } catch (error) {
      if (signal?.aborted) tx.abandon();
      else await tx.rollback();
      throw error;
    } finally {
      scope.end();
    }
    await tx.commit('COMMIT', signal);
    return { ran: true, value };
  }

  async #advance(
    verb: 'claim' | 'seal',
    token: FencingToken,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    EffectScope.refuse(this.#held, this.resource);
    const context = this.#context(token);
    const opening = { statements: this.#sql.openExclusive };
    const { tx, rows } = await Transaction.open(this.#source, opening, context, signal);
    const decision = decideGuard(verb, this.resource, parseState(rows), token);
    if (decision.verdict === 'reject' || decision.next === undefined) {
      await tx.rollback();
      if (decision.verdict === 'reject') throw decision.error;
      return;
    }
    const reply = await tx.commit(this.#sql.advanceAndCommit(decision.next), signal);
    const [stored] = reply as readonly { readonly rowCount: number | null }[];
    if (stored?.rowCount !== 1) {
      throw make('retry', 'the state was changed by something that is not a guard', undefined, context);
    }
  }

  async enter(tx: PostgresQueryable, presented: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    const target = checkQueryable(tx);
    const token = checkToken(presented);
    const context = this.#context(token);
    const ask = async (statement: string): Promise<readonly unknown[]> => {
      options.signal?.throwIfAborted();
      const asked = Promise.resolve(target.query(statement)).catch((error: unknown) => {
        throw notApplied(error, context);
      });
      const reply = await untilAborted(asked, options.signal);
      return Array.isArray(reply)
        ? reply
        : ((reply as { readonly rows?: unknown[] } | undefined)?.rows ?? []);
    };

    await ask(this.#sql.enter);
    let rows = await ask(this.#sql.entered);
    const { isolation, open } = rows[0] as { readonly isolation: string; readonly open: string };
    if (open !== '1') {
      throw new GuardError(
        'invalid-option',
        `guard "${this.resource}": tx has no open transaction; send BEGIN first`,
      );
    }
    // A snapshot taken before the lock was granted shows an old state; locking the row shows the latest one.
    if (isolation === 'repeatable read' || isolation === 'serializable')
      rows = await ask(this.#sql.enteredLatest);
    const decision = decideGuard('run', this.resource, parseState(rows), token, { requireClaim: true });
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
    await tx.commit('COMMIT', undefined);
  }

  #context(token: FencingToken | undefined): ErrorContext {
    return { resource: this.resource, token, table: this.#table };
  }
}
