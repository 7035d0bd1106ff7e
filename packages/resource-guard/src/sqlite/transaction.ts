// One guarded transaction. It is the guard's as long as its mark is there, a savepoint that every COMMIT and
// every ROLLBACK takes with it; only then it is committed.
import { GuardError } from '@lockkeeper/fencing';
import { type Connection, LONGEST_POLL_MS, type Wait } from './connection.ts';
import { inTransaction } from './database.ts';
import { type ErrorContext, isBusy, make, maybeApplied, notApplied } from './errors.ts';
import { applySettings, type Needs } from './settings.ts';
import { BEGIN, CHECK_MARK, COMMIT, ROLLBACK, SET_MARK } from './sql.ts';
import { pause } from './turns.ts';

export class Transaction {
  readonly #connection: Connection;
  readonly #context: ErrorContext;
  readonly #restore: () => void;
  #over = false;

  private constructor(connection: Connection, context: ErrorContext, restore: () => void) {
    this.#connection = connection;
    this.#context = context;
    this.#restore = restore;
  }

  /** Begins and takes the write lock, or gives the error that tells who has it. */
  static tryOpen(connection: Connection, context: ErrorContext, needs: Needs): Transaction | GuardError {
    let restore = () => {};
    try {
      if (connection.isInTransaction()) {
        const what = 'the connection has an open transaction that is not the guard’s; inside it call enter()';
        return make('timeout', what, undefined, context);
      }
      restore = applySettings(connection.db, needs);
      connection.run(BEGIN);
    } catch (error) {
      giveBack(restore);
      const answer = notApplied(error, context);
      if (isBusy(error)) return answer;
      throw answer;
    }
    const tx = new Transaction(connection, context, restore);
    tx.attempt(() => connection.run(SET_MARK));
    return tx;
  }

  /** The same, waiting without blocking the process. */
  static async open(connection: Connection, wait: Wait, needs: Needs = {}): Promise<Transaction> {
    await connection.leaveGap(wait.signal);
    return poll(wait, () => Transaction.tryOpen(connection, wait.context, needs));
  }

  /** The same, waiting as the connection's `busy_timeout` says, which blocks the process. */
  static openNow(connection: Connection, context: ErrorContext, durable?: string): Transaction {
    const opened = Transaction.tryOpen(connection, context, { patient: true, durable });
    if (opened instanceof GuardError) throw opened;
    return opened;
  }

  /** Whether it was committed or undone. */
  get isOver(): boolean {
    return this.#over;
  }

  /** Something of the guard's own; where it fails, the transaction is undone. */
  attempt<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      this.undo(error);
      throw notApplied(error, this.#context);
    }
  }

  /** Commits, or gives the error that tells what is in the way; the transaction is still open then. */
  tryCommit(): GuardError | undefined {
    try {
      this.#connection.run(CHECK_MARK);
    } catch (error) {
      if (isBusy(error)) return this.#hindrance(error);
      throw this.#lost(error);
    }
    try {
      this.#connection.run(COMMIT);
    } catch (error) {
      if (isBusy(error)) {
        this.#connection.run(SET_MARK);
        return this.#hindrance(error);
      }
      this.#rollback();
      throw maybeApplied(error, this.#context);
    }
    this.#end();
    return undefined;
  }

  /** Commits, or is undone where something is in the way. */
  commitNow(): void {
    const hindrance = this.tryCommit();
    if (hindrance === undefined) return;
    this.undo(hindrance);
    throw hindrance;
  }

  /** Commits, waiting for readers without blocking the process; undone where that takes too long. */
  async commit(wait: Wait): Promise<void> {
    try {
      await poll(wait, () => this.tryCommit());
    } catch (error) {
      this.undo(error);
      throw error;
    }
  }

  /**
   * Takes back everything since it began. A no-op once it is over.
   * @param cause - why.
   * @throws GuardError `unknown` where the effect had ended the transaction itself.
   */
  undo(cause: unknown): void {
    if (this.#over) return;
    try {
      this.#connection.run(CHECK_MARK);
    } catch {
      throw this.#lost(cause);
    }
    this.#rollback();
  }

  /** The mark cannot be seen: what the effect wrote was committed or undone by itself, or still can be. */
  #lost(cause: unknown): GuardError {
    this.#rollback();
    const what = 'the effect ended the transaction, or kept it from being ended; it may have been applied';
    return make('unknown', what, cause, this.#context);
  }

  #hindrance(error: unknown): GuardError {
    return make('timeout', 'readers keep the file or the connection from COMMIT', error, this.#context);
  }

  #rollback(): void {
    try {
      if (inTransaction(this.#connection.db)) this.#connection.run(ROLLBACK);
    } catch {
      // An iterator of better-sqlite3 that was left open, or the database was closed, which rolls back too.
      this.#connection.leaveOpen();
    }
    this.#end();
  }

  #end(): void {
    this.#over = true;
    this.#connection.noteEnd();
    giveBack(this.#restore);
  }
}

/** A read outside any transaction of the guard's, or the error that tells what is in the way. */
export function readNow<T>(connection: Connection, context: ErrorContext, read: () => T): T | GuardError {
  let restore = () => {};
  try {
    restore = applySettings(connection.db, {});
    return read();
  } catch (error) {
    const answer = notApplied(error, context);
    if (isBusy(error)) return answer;
    throw answer;
  } finally {
    giveBack(restore);
  }
}

function giveBack(restore: () => void): void {
  try {
    restore();
  } catch {
    // Only a connection that was closed, or is kept by an iterator, does not take its settings back.
  }
}

/** Tries until there is something else than the error that tells what is in the way. */
export async function poll<T>({ until, signal }: Wait, attempt: () => T | GuardError): Promise<T> {
  for (let ms = 1; ; ms = Math.min(2 * ms, LONGEST_POLL_MS)) {
    signal?.throwIfAborted();
    const result = attempt();
    if (!(result instanceof GuardError)) return result;
    const leftMs = until - performance.now();
    if (leftMs <= 0) throw result;
    await pause(Math.min(ms, leftMs), signal);
  }
}
