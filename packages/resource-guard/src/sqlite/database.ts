// What the guard needs of a driver. Both drivers are synchronous: a statement has ended when the call returns.
import { invalid } from '../options.ts';

/** A `Database` of better-sqlite3, or a `DatabaseSync` of `node:sqlite`. */
export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
}

export interface SqliteStatement {
  // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver binds
  get(...parameters: any[]): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver binds
  run(...parameters: any[]): unknown;
}

/** What tells drivers and their states apart; each has some of these. */
interface Members {
  readonly prepare?: unknown;
  readonly exec?: unknown;
  /** better-sqlite3. */
  readonly inTransaction?: unknown;
  readonly readonly?: unknown;
  /** `node:sqlite`, from Node 22.16 and 24 on. */
  readonly isTransaction?: unknown;
  /** The package `sqlite3`, whose statements are not done when the call returns. */
  readonly parallelize?: unknown;
  readonly $client?: unknown;
}

/** @throws GuardError `invalid-option` for what is no synchronous driver's database, or cannot be written. */
export function checkDatabase<DB extends SqliteDatabase>(value: DB): DB {
  const expected = 'expected a Database of better-sqlite3 or a DatabaseSync of node:sqlite';
  if (typeof value !== 'object' || value === null) throw invalid('db', value, expected);
  const members = value as Members;
  if (typeof members.prepare !== 'function' || typeof members.exec !== 'function') {
    const hint = typeof members.$client === 'object' ? '; its property "$client" may be one' : '';
    throw invalid('db', value, expected + hint);
  }
  if (typeof members.parallelize === 'function') {
    throw invalid('db', value, `${expected}: the package "sqlite3" is asynchronous`);
  }
  if (members.readonly === true) throw invalid('db', value, 'it was opened read-only: a guard writes');
  return value;
}

/** Whether a transaction is open on the connection, whosever it is. */
export function inTransaction(db: SqliteDatabase): boolean {
  const { inTransaction, isTransaction } = db as Members;
  if (typeof inTransaction === 'boolean') return inTransaction;
  if (typeof isTransaction === 'boolean') return isTransaction;
  // Older node:sqlite cannot tell. SQLite can: there is no transaction within a transaction.
  try {
    db.exec('BEGIN');
  } catch (error) {
    if (error instanceof Error && /within a transaction/.test(error.message)) return true;
    throw error;
  }
  db.exec('ROLLBACK');
  return false;
}

/** The first column of the first row, in whichever shape the database was told to give rows. */
export function firstColumn(row: unknown): unknown {
  return typeof row === 'object' && row !== null ? Object.values(row)[0] : undefined;
}
