import { GuardError } from '@lockkeeper/fencing';
import { untilAborted } from '../abort.ts';
import { Turnstile } from '../turnstile.ts';
import {
  isPool,
  type PostgresClient,
  type PostgresPool,
  type PostgresQuery,
  type PostgresResult,
} from './client.ts';
import {
  type ErrorContext,
  endsConnection,
  isRetry,
  make,
  maybeApplied,
  notApplied,
  sqlState,
} from './errors.ts';

/** What an effect writes through: the guard's open transaction. */
export interface PostgresTransaction {
  /**
   * Runs one statement inside the guarded transaction, which is the guard's to end: no COMMIT, no ROLLBACK
   * except to a savepoint. Concurrent calls run one after another.
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

/** `clean`: no transaction is open. Otherwise one may be, and a statement may still be running. */
type Condition = 'clean' | 'doubtful';

/** A client for one transaction. Whoever took it gives it back exactly once. */
interface Turn {
  readonly client: PostgresClient;
  giveBack(condition: Condition): Promise<void> | void;
}

/** One connection carries one transaction at a time: the calls of all guards on a Client queue here. */
const turnstiles = new WeakMap<PostgresClient, Turnstile>();

async function takeTurn(
  source: PostgresPool | PostgresClient,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<Turn> {
  return isPool(source) ? takeFromPool(source, context, signal) : takeClient(source, signal);
}

async function takeFromPool(
  pool: PostgresPool,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<Turn> {
  signal?.throwIfAborted();
  const connecting = pool.connect().catch((error: unknown) => {
    throw notApplied(error, context);
  });
  const client = await untilAborted(connecting, signal).catch((error: unknown) => {
    if (signal?.aborted) connecting.then((late) => late.release(), ignore);
    throw error;
  });
  return { client, giveBack: (condition) => client.release(condition !== 'clean') };
}

async function takeClient(client: PostgresClient, signal: AbortSignal | undefined): Promise<Turn> {
  const turnstile = turnstiles.get(client) ?? new Turnstile();
  turnstiles.set(client, turnstile);
  const leave = await turnstile.enter('exclusive', signal);
  const status = client.getTransactionStatus?.();
  if (status === 'T' || status === 'E') {
    leave();
    const way = 'pass a Pool, or use guard.enter(tx, token) inside a transaction of your own';
    throw new GuardError('invalid-option', `pool is a Client inside an open transaction; ${way}`);
  }
  return {
    client,
    // A Client is not ours to drop: the next call waits until the server has answered for this one.
    giveBack: (condition) => (condition === 'clean' ? leave() : client.query('ROLLBACK').then(leave, leave)),
  };
}

/**
 * One transaction on one connection: opened, used, and ended exactly once, by `commit` or by `rollback`.
 * Whatever happens to the connection meanwhile, no error event goes uncaught and the client is given back.
 */
export class Transaction implements PostgresTransaction {
  readonly #turn: Turn;
  readonly #context: ErrorContext;
  #open = true;
  #lost: Error | undefined;
  #failure: unknown;
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(turn: Turn, context: ErrorContext) {
    this.#turn = turn;
    this.#context = context;
    turn.client.on('error', this.#onError);
  }

  /** Sends `opening`, a string of statements of which the last one reads, and hands `body` its rows. */
  static async open(
    source: PostgresPool | PostgresClient,
    opening: string,
    context: ErrorContext,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly tx: Transaction; readonly rows: readonly unknown[] }> {
    const tx = new Transaction(await takeTurn(source, context, signal), context);
    try {
      const reply = await untilAborted(tx.#turn.client.query(opening), signal);
      return { tx, rows: lastResult(reply).rows };
    } catch (error) {
      if (signal?.aborted) {
        tx.abandon();
        throw error;
      }
      if (endsConnection(error)) tx.#lost ??= error as Error;
      await tx.rollback();
      throw notApplied(error, context);
    }
  }

  readonly #onError = (error: Error): void => {
    this.#lost ??= error;
  };

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
    try {
      const reply = await client.query(query as string, values);
      // The effect may not end the transaction itself: what it wrote after that would be unguarded.
      if (client.getTransactionStatus?.() === 'I') {
        this.#open = false;
        const what = 'the effect ended the transaction that the guard had opened';
        throw make('unknown', what, undefined, this.#context);
      }
      return reply;
    } catch (error) {
      this.#failure ??= error;
      if (endsConnection(error)) this.#lost ??= error as Error;
      if (this.#lost !== undefined) throw notApplied(this.#lost, this.#context);
      throw isRetry(error) ? notApplied(error, this.#context) : error;
    }
  }

  /**
   * Sends `statement`, which ends in COMMIT, after every query of the effect has been answered.
   * @returns the reply.
   * @throws GuardError `unknown` when the reply was lost, another code when certainly nothing was applied.
   */
  async commit(statement: string, signal: AbortSignal | undefined): Promise<unknown> {
    await this.#tail;
    if (signal?.aborted) {
      this.abandon();
      throw signal.reason;
    }
    if (!this.#open || this.#lost !== undefined) {
      await this.rollback();
      throw notApplied(this.#failure ?? this.#lost, this.#context);
    }
    this.#open = false;
    const committed = this.#commit(statement);
    return untilAborted(committed, signal).catch((error: unknown) => {
      if (error instanceof GuardError) throw error;
      throw make('unknown', 'stopped waiting for the reply to COMMIT', error, this.#context);
    });
  }

  async #commit(statement: string): Promise<unknown> {
    try {
      const reply = await this.#turn.client.query(statement);
      // A COMMIT of a failed transaction is no error to PostgreSQL; its tag tells.
      if (lastResult(reply).command === 'ROLLBACK') throw this.#swallowed();
      this.#end('clean');
      return reply;
    } catch (error) {
      if (error instanceof GuardError) this.#end('clean');
      else if (sqlState(error) === undefined || endsConnection(error)) this.#end('doubtful');
      else await this.#sendRollback();
      throw maybeApplied(error, this.#context);
    }
  }

  #swallowed(): GuardError {
    if (isRetry(this.#failure)) return notApplied(this.#failure, this.#context);
    const what = 'a statement of the effect failed and the effect went on, so PostgreSQL rolled back';
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
    const givenBack = Promise.resolve(this.#turn.giveBack(condition));
    givenBack.finally(() => this.#turn.client.removeListener('error', this.#onError)).catch(ignore);
  }
}

/** The reply to several statements is an array of results. */
function lastResult(reply: unknown): PostgresResult {
  return (Array.isArray(reply) ? reply.at(-1) : reply) as PostgresResult;
}

function ignore(): void {}
