import { GuardError } from '@lockkeeper/fencing';
import { untilAborted } from '../abort.ts';
import type { PostgresClient, PostgresPool, PostgresQuery, PostgresResult } from './client.ts';
import { canPipeline, ownText, sendQuery } from './driver.ts';
import {
  type ErrorContext,
  endsConnection,
  isRetry,
  make,
  maybeApplied,
  notApplied,
  sqlState,
} from './errors.ts';
import type { Mark } from './mark.ts';
import { asText, Pipeline, type Statement } from './pipeline.ts';
import { type Condition, type Turn, takeTurn } from './turn.ts';

/** What an effect writes through: the guard's open transaction. */
export interface PostgresTransaction {
  /**
   * Runs one statement inside the guarded transaction; PostgreSQL refuses several in one call. Concurrent
   * calls run one after another.
   *
   * The transaction is the guard's to end: no COMMIT, no ROLLBACK except to a savepoint, no RESET ALL. After
   * that nothing more of the effect is committed, and its run fails with `unknown`, since what it had
   * committed itself stays. An effect may set a longer `statement_timeout` for itself; a claim then waits
   * longer.
   *
   * Rejects with `pg`'s own error, except: serialization failure and deadlock are
   * {@link GuardError} `retry`, a lost connection and a handle used too late `unavailable`.
   */
  query<Row = Record<string, unknown>>(
    query: string | PostgresQuery,
    // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver converts
    values?: any[],
  ): Promise<PostgresResult<Row>>;
}

/** How a transaction is opened, and what tells it from any other. */
export interface Opening {
  /** Statements of which the last one reads the column `state`: for the simple protocol, or prepared ones. */
  readonly statements: string | readonly Statement[];
  /** Set by those statements, where what follows is not ours alone to write. */
  readonly mark?: Mark;
}

/**
 * One transaction on one connection: opened, used, and ended exactly once, by `commit` or by `rollback`.
 * Only the transaction that was opened is ever committed. Whatever happens to the connection meanwhile, no
 * error event goes uncaught and the client is given back.
 */
export class Transaction implements PostgresTransaction {
  readonly #source: object;
  readonly #turn: Turn;
  readonly #context: ErrorContext;
  readonly #mark: Mark | undefined;
  #lost: GuardError | undefined;
  #onLost: (error: GuardError) => void = ignore;
  #open = true;
  #ended = false;
  #failure: unknown;
  #left: GuardError | undefined;
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(source: object, turn: Turn, mark: Mark | undefined, context: ErrorContext) {
    this.#source = source;
    this.#turn = turn;
    this.#mark = mark;
    this.#context = context;
    turn.client.on('error', this.#lose);
    turn.client.on('end', this.#onEnd);
  }

  /** Opens a transaction; `rows` is what its last statement read. */
  static async open(
    source: PostgresPool | PostgresClient,
    { statements, mark }: Opening,
    context: ErrorContext,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly tx: Transaction; readonly rows: readonly unknown[] }> {
    const tx = new Transaction(source, await takeTurn(source, context, signal), mark, context);
    try {
      return { tx, rows: await untilAborted(tx.#ask(statements), signal) };
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

  async #ask(statements: string | readonly Statement[]): Promise<readonly unknown[]> {
    const { client } = this.#turn;
    if (typeof statements === 'string')
      return lastResult(await client.query(ownText(client, statements))).rows;
    if (!canPipeline(client)) return lastResult(await client.query(asText(statements))).rows;
    const pipeline = new Pipeline(client, this.#source, statements);
    try {
      const { row } = await pipeline.done;
      return row.map((state) => ({ state }));
    } catch (error) {
      if (!pipeline.lostPrepared(error)) throw error;
      await client.query('ROLLBACK');
      return this.#ask(statements);
    }
  }

  readonly #lose = (error: unknown): void => {
    this.#lost ??= notApplied(error, this.#context);
    this.#onLost(this.#lost);
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#lose(new Error('the connection ended'));
  };

  /** Settles like `work`, or rejects once the connection is lost: then nothing of the work was applied. */
  whileConnected<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#onLost = reject;
      if (this.#lost !== undefined) reject(this.#lost);
      work.then(resolve, reject);
    });
  }

  query<Row = Record<string, unknown>>(
    query: string | PostgresQuery,
    values?: unknown[],
  ): Promise<PostgresResult<Row>> {
    const sent = this.#tail.then(() => this.#send(query, values));
    this.#tail = sent.then(ignore, ignore);
    return sent as Promise<PostgresResult<Row>>;
  }

  async #send(query: string | PostgresQuery, values: unknown[] | undefined): Promise<unknown> {
    const { client } = this.#turn;
    if (!this.#open) {
      const what = 'the transaction of this run is over; await each query inside the effect';
      throw make('unavailable', what, undefined, this.#context);
    }
    let reply: unknown;
    try {
      const statement = oneStatement(query, values);
      reply = await ('submit' in statement
        ? client.query(statement as unknown as string)
        : sendQuery(client, statement));
    } catch (error) {
      this.#failure ??= error;
      if (endsConnection(error)) this.#lose(error);
      // A COMMIT that failed has ended the transaction, too.
      else if (sqlState(error) !== undefined) await this.#checkMark(false);
      if (this.#lost !== undefined) throw this.#lost;
      throw isRetry(error) ? notApplied(error, this.#context) : error;
    }
    if (mayEndTransaction(reply)) await this.#checkMark((reply as PostgresResult).command !== 'ROLLBACK');
    return reply;
  }

  /** @param mayBeCommitted - by the statement before, unless the mark is still there. */
  async #checkMark(mayBeCommitted: boolean): Promise<void> {
    if (this.#mark === undefined || !this.#open) return;
    try {
      await this.#turn.client.query(asText([this.#mark.check]));
    } catch (error) {
      // Nothing is carried out in a transaction that has failed, until it goes back to a savepoint.
      if (sqlState(error) === '25P02') return;
      if (mayBeCommitted || this.#mark.isMissing(error)) throw this.#leave();
      this.#lose(error);
      throw this.#lost;
    }
  }

  /** What the effect writes after leaving its transaction would be unguarded, so nothing more is let through. */
  #leave(): GuardError {
    this.#open = false;
    const what = 'the effect ended the transaction that the guard had opened, or reset its settings';
    this.#left ??= make('unknown', what, undefined, this.#context);
    return this.#left;
  }

  #explain(error: unknown): unknown {
    return this.#mark?.isMissing(error) ? this.#leave() : error;
  }

  /** What the caller is told where the effect has rejected with `error`: that it may have been applied, or just that. */
  toldOf(error: unknown): unknown {
    if (this.#left === undefined || error === this.#left) return error;
    return make('unknown', 'the effect ended its transaction before it failed', error, this.#context);
  }

  /**
   * Sends COMMIT, after `statement` where one is given, once every query of the effect has been answered.
   * @returns how many rows that statement wrote.
   * @throws GuardError `unknown` when the reply was lost, another code when certainly nothing was applied.
   */
  async commit(signal: AbortSignal | undefined, statement?: string): Promise<number | undefined> {
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
    return untilAborted(this.#commit(statement), signal).catch((error: unknown) => {
      if (error instanceof GuardError) throw error;
      throw make('unknown', 'stopped waiting for the reply to COMMIT', error, this.#context);
    });
  }

  async #commit(statement: string | undefined): Promise<number | undefined> {
    try {
      const { tag, written } = await this.#sendCommit(statement);
      // A COMMIT of a failed transaction is no error to PostgreSQL; its tag tells.
      if (tag !== 'COMMIT') throw this.#swallowed();
      this.#end('clean');
      return written;
    } catch (error) {
      if (sqlState(error) === undefined || endsConnection(error)) this.#end('doubtful');
      else await this.#sendRollback();
      // The check, too, is not carried out in a transaction that has failed.
      const told = sqlState(error) === '25P02' ? this.#swallowed() : this.#explain(error);
      throw maybeApplied(told, this.#context);
    }
  }

  /**
   * In one message, so that no COMMIT follows a check or a statement that failed; and not prepared, since a pooler may
   * have prepared it elsewhere, and after the effect nothing can be sent again.
   */
  async #sendCommit(statement: string | undefined): Promise<{ tag: string | undefined; written?: number }> {
    const { client } = this.#turn;
    if (this.#mark !== undefined && statement === undefined) {
      return { tag: lastResult(await client.query(asText(this.#mark.checkAndCommit))).command };
    }
    const reply = await client.query(statement === undefined ? 'COMMIT' : `${statement}; COMMIT`);
    const written = Array.isArray(reply) ? ((reply[0] as PostgresResult).rowCount ?? 0) : 0;
    return { tag: lastResult(reply).command, written };
  }

  #swallowed(): GuardError {
    if (isRetry(this.#failure)) return notApplied(this.#failure, this.#context);
    const what = 'a statement of the effect failed and the effect went on, so nothing was committed';
    return make('unavailable', what, this.#failure, this.#context);
  }

  /** Undoes everything and gives the client back. Never throws. */
  async rollback(): Promise<void> {
    this.#open = false;
    await this.#tail;
    if (this.#lost !== undefined) this.#end('doubtful');
    else await this.#sendRollback();
  }

  async #sendRollback(): Promise<void> {
    try {
      await this.#turn.client.query('ROLLBACK');
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
    const { client, giveBack } = this.#turn;
    // A client that could not connect never answers what is sent to it after its end.
    const givenBack = Promise.resolve(giveBack(this.#ended ? 'ended' : condition));
    const forget = () => {
      client.removeListener('error', this.#lose);
      client.removeListener('end', this.#onEnd);
    };
    givenBack.finally(forget).catch(ignore);
  }
}

/**
 * For the driver, by the extended protocol, in which a message is one statement: several could end the
 * transaction and go on without it, before anybody has seen a reply. The caller's object stays as it is.
 */
function oneStatement(query: string | PostgresQuery, values: unknown[] | undefined): object {
  const own = { queryMode: 'extended', ...(values && { values }) };
  if (typeof query === 'string') return { text: query, ...own };
  // A cursor or the like sends itself, and knows no other protocol.
  if ('submit' in query) return query;
  return Object.create(query, Object.getOwnPropertyDescriptors(own)) as object;
}

/** COMMIT, END, ROLLBACK, ABORT, PREPARE TRANSACTION; and by the same tags ROLLBACK TO and PREPARE. */
function mayEndTransaction(reply: unknown): boolean {
  return ['COMMIT', 'ROLLBACK', 'PREPARE'].includes((reply as PostgresResult | undefined)?.command ?? '');
}

/** The reply to several statements is an array of results. */
function lastResult(reply: unknown): PostgresResult {
  return (Array.isArray(reply) ? reply.at(-1) : reply) as PostgresResult;
}

function ignore(): void {}
