import type { Held } from '../effect-scope.ts';
import { inTransaction, type SqliteDatabase, type SqliteStatement } from './database.ts';
import { type ErrorContext, make } from './errors.ts';
import { ROLLBACK } from './sql.ts';
import { pause, Turns } from './turns.ts';

/** How often a waiting call looks whether the file is free. */
export const LONGEST_POLL_MS = 4;
/**
 * SQLite has no queue: whoever asks when the file is free gets it. So after so long a series of transactions
 * a process leaves a gap that no waiting call, in whichever process, can miss.
 */
const SERIES_MS = 200;
const GAP_MS = 2 * LONGEST_POLL_MS;

/** How long a call waits, and what its errors name. */
export interface Wait {
  /** By `performance.now()`. */
  readonly until: number;
  readonly signal: AbortSignal | undefined;
  readonly context: ErrorContext;
}

const connections = new WeakMap<SqliteDatabase, Connection>();

/** One connection, which carries one transaction at a time; all guards on it share this object. */
export class Connection {
  readonly db: SqliteDatabase;
  readonly held: Held;
  readonly #turns = new Turns();
  readonly #statements = new Map<string, SqliteStatement>();
  #seriesSince = 0;
  #endedAt = 0;
  #leftOpen = false;

  private constructor(db: SqliteDatabase) {
    this.db = db;
    this.held = { source: db, lock: undefined };
  }

  static of(db: SqliteDatabase): Connection {
    const known = connections.get(db);
    if (known !== undefined) return known;
    const connection = new Connection(db);
    connections.set(db, connection);
    return connection;
  }

  /** Takes the turn if it is free. */
  tryTurn(): boolean {
    return this.#turns.tryEnter();
  }

  async turn({ until, signal, context }: Wait): Promise<void> {
    const late = () => make('timeout', 'waited too long for its turn on the connection', undefined, context);
    await this.#turns.enter(until - performance.now(), signal, late);
  }

  leaveTurn(): void {
    this.#turns.leave();
  }

  run(sql: string, ...parameters: unknown[]): void {
    this.#call(sql, (statement) => statement.run(...parameters));
  }

  get(sql: string, ...parameters: unknown[]): unknown {
    return this.#call(sql, (statement) => statement.get(...parameters));
  }

  /** Statements are prepared once. Those of a database that was closed and opened again are made anew. */
  #call<T>(sql: string, act: (statement: SqliteStatement) => T): T {
    const known = this.#statements.get(sql);
    if (known !== undefined) {
      try {
        return act(known);
      } catch (error) {
        if (!(error instanceof Error && /finalized/.test(error.message))) throw error;
      }
    }
    const statement = this.db.prepare(sql);
    this.#statements.set(sql, statement);
    return act(statement);
  }

  /** Whether somebody's transaction is open. One that a guard could not undo earlier is undone now. */
  isInTransaction(): boolean {
    if (!inTransaction(this.db)) this.#leftOpen = false;
    else if (this.#leftOpen) {
      this.run(ROLLBACK);
      this.#leftOpen = false;
    } else return true;
    return false;
  }

  /** A transaction of a guard could not be undone. */
  leaveOpen(): void {
    this.#leftOpen = true;
  }

  noteEnd(): void {
    this.#endedAt = performance.now();
  }

  /** Where a long series of transactions has left others no gap, leaves one. */
  async leaveGap(signal: AbortSignal | undefined): Promise<void> {
    if (performance.now() - this.#endedAt >= GAP_MS) this.#seriesSince = performance.now();
    if (performance.now() - this.#seriesSince <= SERIES_MS) return;
    await pause(GAP_MS, signal);
    this.#seriesSince = performance.now();
  }
}
