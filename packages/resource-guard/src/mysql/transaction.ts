import { randomUUID } from 'node:crypto';
import { GuardError } from '@lockkeeper/fencing';
import { untilAborted } from '../abort.ts';
import { invalid } from '../options.ts';
import { type MysqlQuery, type MysqlResult, ownQuery } from './client.ts';
import {
  type ErrorContext,
  endsConnection,
  isRetry,
  make,
  maybeApplied,
  notApplied,
  serverErrno,
} from './errors.ts';
import { isInTransaction, type Row, readRow } from './reply.ts';
import { compound, type MysqlDialect, type Opening, UNDO } from './sql.ts';
import { type Condition, type Source, type Turn, takeTurn } from './turn.ts';
import { isSavepoint, runsOtherCode, staysInside } from './words.ts';

/** What an effect writes through: the guard's open transaction. */
export interface MysqlTransaction {
  /**
   * `query` of `mysql2`, inside the guarded transaction. Concurrent calls run one after another.
   *
   * The transaction is the guard's to end. COMMIT, ROLLBACK except to a savepoint, and every statement that
   * commits silently (ALTER, CREATE, TRUNCATE, LOCK TABLES …) are refused with {@link GuardError}
   * `invalid-option` before they are sent, and so is USE, which would outlive it. Where a procedure ends it, nothing more is let through, and the run
   * fails with `unknown`, since what the procedure committed stays.
   *
   * Rejects with the driver's own error, except: a deadlock is {@link GuardError} `retry`, a lost connection
   * and a handle used too late `unavailable`.
   */
  query<Result = unknown>(
    query: string | MysqlQuery,
    // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver converts
    values?: any,
  ): Promise<MysqlResult<Result>>;
  /** Like `query`, as a prepared statement. */
  execute<Result = unknown>(
    query: string | MysqlQuery,
    // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver converts
    values?: any,
  ): Promise<MysqlResult<Result>>;
}

/** The name of a savepoint that nobody else has. */
export function newMark(): string {
  return `lockkeeper_${randomUUID().replaceAll('-', '')}`;
}

/**
 * One transaction on one connection: opened, used, and ended exactly once, by `commit` or by `rollback`.
 * Only the transaction that was opened is ever committed. Whatever happens to the connection meanwhile, no
 * error event goes uncaught and the connection is given back with the settings it had.
 */
export class Transaction implements MysqlTransaction {
  readonly #turn: Turn;
  readonly #context: ErrorContext;
  readonly #opening: Opening;
  #lost: GuardError | undefined;
  #onLost: (error: GuardError) => void = ignore;
  #open = true;
  #failure: unknown;
  #left: GuardError | undefined;
  #hasSavepoints = false;
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(turn: Turn, opening: Opening, context: ErrorContext) {
    this.#turn = turn;
    this.#opening = opening;
    this.#context = context;
    turn.connection.on('error', this.#lose);
    turn.connection.on('end', this.#onEnd);
  }

  /** Opens a transaction; `row` is what its last statement read: `undefined` for no row, else its column. */
  static async open(
    source: Source,
    opening: (dialect: MysqlDialect) => Opening,
    context: ErrorContext,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly tx: Transaction; readonly row: Row }> {
    const turn = await takeTurn(source, context, signal);
    const tx = new Transaction(turn, opening(turn.dialect), context);
    try {
      const { statements, timeoutMs } = tx.#opening;
      const reply = await untilAborted(tx.#exchange(statements, timeoutMs), signal);
      return { tx, row: readRow(reply) };
    } catch (error) {
      if (signal?.aborted) {
        tx.abandon();
        throw error;
      }
      if (endsConnection(error)) tx.#lose(error);
      await tx.rollback();
      throw notApplied(error, context);
    }
  }

  readonly #lose = (error: unknown): void => {
    this.#lost ??= notApplied(error, this.#context);
    this.#onLost(this.#lost);
  };

  readonly #onEnd = (): void => {
    this.#lose(new Error('the connection ended'));
  };

  /** Statements of ours, in one message where the server can. Resolves with the reply to the last. */
  async #exchange(statements: readonly string[], timeoutMs?: number): Promise<unknown> {
    const { connection, dialect } = this.#turn;
    if (dialect === 'mariadb') return connection.query(ownQuery(compound(statements, timeoutMs)));
    let reply: unknown;
    for (const sql of statements) {
      // One round trip less, nearly always.
      if (sql === UNDO && isInTransaction(reply) === false) continue;
      reply = await connection.query(ownQuery(sql));
    }
    return reply;
  }

  /** Settles like `work`, or rejects once the connection is lost: then nothing of the work was applied. */
  whileConnected<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#onLost = reject;
      if (this.#lost !== undefined) reject(this.#lost);
      work.then(resolve, reject);
    });
  }

  query<Result>(query: string | MysqlQuery, values?: unknown): Promise<MysqlResult<Result>> {
    return this.#enqueue('query', query, values) as Promise<MysqlResult<Result>>;
  }

  execute<Result>(query: string | MysqlQuery, values?: unknown): Promise<MysqlResult<Result>> {
    return this.#enqueue('execute', query, values) as Promise<MysqlResult<Result>>;
  }

  #enqueue(method: 'query' | 'execute', query: string | MysqlQuery, values: unknown): Promise<unknown> {
    const sent = this.#tail.then(() => this.#send(method, query, values));
    this.#tail = sent.then(ignore, ignore);
    return sent;
  }

  async #send(method: 'query' | 'execute', query: string | MysqlQuery, values: unknown): Promise<unknown> {
    const sql = checkStatement(query);
    const { connection } = this.#turn;
    if (!this.#open) {
      const what = 'the transaction of this run is over; await each query inside the effect';
      throw make('unavailable', what, undefined, this.#context);
    }
    this.#hasSavepoints ||= isSavepoint(sql);
    try {
      const reply = await connection[method](query, ...(values === undefined ? [] : [values]));
      if (isInTransaction(reply) === false) this.#leave();
      if (runsOtherCode(sql)) await this.#checkMark();
      return reply;
    } catch (error) {
      throw await this.#explain(error, sql);
    }
  }

  /** An error of the server may have undone the whole transaction; what follows would then be unguarded. */
  async #explain(error: unknown, sql: string): Promise<unknown> {
    if (error instanceof GuardError) return error;
    this.#failure = error;
    if (endsConnection(error)) this.#lose(error);
    if (this.#lost !== undefined) return this.#lost;
    if (serverErrno(error) === undefined) return error;
    if (isRetry(error)) this.#open = false;
    else {
      try {
        if (isInTransaction(await this.#turn.connection.query('DO 0')) === false) this.#open = false;
        else if (runsOtherCode(sql)) await this.#checkMark();
      } catch (probe) {
        if (probe instanceof GuardError) return probe;
        this.#lose(probe);
        return this.#lost;
      }
    }
    return isRetry(error) ? notApplied(error, this.#context) : error;
  }

  /** A procedure may have left the transaction and begun another. Savepoints of the effect would not survive. */
  async #checkMark(): Promise<void> {
    const { mark } = this.#opening;
    if (mark === undefined || this.#hasSavepoints || !this.#open) return;
    try {
      await this.#exchange([`RELEASE SAVEPOINT ${mark}`, `SAVEPOINT ${mark}`]);
    } catch (error) {
      if (!this.#isMarkMissing(error)) throw error;
      this.#leave();
    }
  }

  #isMarkMissing(error: unknown): boolean {
    const { mark } = this.#opening;
    return mark !== undefined && serverErrno(error) === 1305 && (error as Error).message.includes(mark);
  }

  /** What the effect writes after leaving its transaction would be unguarded, so nothing more is let through. */
  #leave(): never {
    this.#open = false;
    const what = 'the effect ended the transaction that the guard had opened';
    this.#left ??= make('unknown', what, undefined, this.#context);
    throw this.#left;
  }

  /** What the caller is told where the effect has rejected with `error`: that it may have been applied, or just that. */
  toldOf(error: unknown): unknown {
    if (this.#left === undefined || error === this.#left) return error;
    return make('unknown', 'the effect ended its transaction before it failed', error, this.#context);
  }

  /**
   * Commits after every query of the effect has been answered.
   * @param last - a statement of the guard's own before COMMIT.
   * @throws GuardError `unknown` when the reply was lost, another code when certainly nothing was applied.
   */
  async commit(last: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    await this.#tail;
    if (signal?.aborted) {
      this.abandon();
      throw signal.reason;
    }
    if (!this.#open || this.#lost !== undefined) {
      await this.rollback();
      throw this.#left ?? notApplied(this.#failure ?? this.#lost, this.#context);
    }
    this.#open = false;
    await untilAborted(this.#commit(last), signal).catch((error: unknown) => {
      if (error instanceof GuardError) throw error;
      throw make('unknown', 'stopped waiting for the reply to COMMIT', error, this.#context);
    });
  }

  async #commit(last: string | undefined): Promise<void> {
    const { mark, restore } = this.#opening;
    const before = [...(mark === undefined ? [] : [`RELEASE SAVEPOINT ${mark}`]), ...(last ? [last] : [])];
    const inOneMessage = this.#turn.dialect === 'mariadb';
    let committing = inOneMessage;
    try {
      // No COMMIT follows a statement that failed.
      if (inOneMessage) await this.#exchange([...before, restore, 'COMMIT']);
      else {
        await this.#exchange(before);
        committing = true;
        await this.#exchange(['COMMIT']);
      }
    } catch (error) {
      if (serverErrno(error) === undefined || endsConnection(error)) this.#end('doubtful');
      else await this.#sendRollback();
      if (this.#isMarkMissing(error)) {
        const what = 'the effect ended the transaction that the guard had opened';
        throw make('unknown', what, error, this.#context);
      }
      throw committing ? maybeApplied(error, this.#context) : notApplied(error, this.#context);
    }
    if (inOneMessage) this.#end('clean');
    else await this.#restore([restore]);
  }

  /** Undoes everything and gives the connection back. Never throws. */
  async rollback(): Promise<void> {
    this.#open = false;
    await this.#tail;
    if (this.#lost !== undefined) this.#end('doubtful');
    else await this.#sendRollback();
  }

  #sendRollback(): Promise<void> {
    return this.#restore(['ROLLBACK', this.#opening.restore]);
  }

  async #restore(statements: readonly string[]): Promise<void> {
    try {
      await this.#exchange(statements);
      this.#end('clean');
    } catch {
      this.#end('doubtful');
    }
  }

  /** Gives up without waiting for the statement in flight: a pool's connection is dropped. */
  abandon(): void {
    this.#open = false;
    this.#end('doubtful');
  }

  #end(condition: Condition): void {
    const { connection, giveBack } = this.#turn;
    giveBack(condition === 'clean' && this.#lost === undefined ? 'clean' : 'doubtful', this.#opening.restore);
    connection.removeListener('error', this.#lose);
    connection.removeListener('end', this.#onEnd);
  }
}

function checkStatement(query: unknown): string {
  const sql = typeof query === 'object' && query !== null ? (query as { sql?: unknown }).sql : query;
  if (typeof sql !== 'string') throw invalid('query', query, 'expected SQL, or an object with a text "sql"');
  if (staysInside(sql)) return sql;
  const why = 'it would end the transaction of this run, or is not known to stay inside';
  throw invalid('query', sql, `${why}; nothing was sent`);
}

function ignore(): void {}
