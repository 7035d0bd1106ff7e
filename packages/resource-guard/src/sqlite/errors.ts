// Which of the outcomes an error of SQLite means.
import { type FencingToken, GuardError, type GuardErrorCode } from '@lockkeeper/fencing';

export interface ErrorContext {
  readonly resource: string;
  readonly token?: FencingToken | undefined;
  /** The guard's table as SQL names it. */
  readonly table: string;
}

/** SQLite's primary result codes that mean something to a guard. `node:sqlite` gives numbers. */
const NAMES: ReadonlyMap<number, string> = new Map([
  [1, 'ERROR'],
  [5, 'BUSY'],
  [6, 'LOCKED'],
  [8, 'READONLY'],
  [19, 'CONSTRAINT'],
]);

/** `BUSY` for `SQLITE_BUSY_SNAPSHOT`; `undefined` for what SQLite did not say. */
export function resultCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown };
  if (typeof errcode === 'number') return NAMES.get(errcode & 0xff) ?? 'other';
  return typeof code === 'string' ? /^SQLITE_([A-Z]+)/.exec(code)?.[1] : undefined;
}

/** Somebody else keeps the file, or an iterator of better-sqlite3 keeps the connection: it may pass. */
export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  if (code === 'BUSY' || code === 'LOCKED') return true;
  return error instanceof TypeError && /busy executing a query/.test(error.message);
}

/** An error before COMMIT: certainly nothing was applied. */
export function notApplied(error: unknown, context: ErrorContext): GuardError {
  if (error instanceof GuardError) return error;
  const code = resultCode(error);
  const message = error instanceof Error ? error.message : '';
  if (isBusy(error)) return make('timeout', 'waited too long for the write lock', error, context);
  if (code === 'ERROR' && /no such (table|column)|has no column/.test(message)) {
    const way = 'call guard.migrate() once, or run the SQL that sqliteGuardSql() prints';
    return make(
      'not-migrated',
      `the table ${context.table} is missing or of another shape; ${way}`,
      error,
      context,
    );
  }
  const what = code === 'READONLY' ? 'the database is read-only' : 'SQLite refused';
  return make('unavailable', `${what}; nothing was applied`, error, context);
}

/**
 * An error of COMMIT. Definite only where SQLite refused before it wrote: after an error of the disk, the
 * transaction may be whole in the file, and come back by the recovery after a crash.
 */
export function maybeApplied(error: unknown, context: ErrorContext): GuardError {
  if (resultCode(error) === 'CONSTRAINT') return notApplied(error, context);
  return make('unknown', 'COMMIT failed; it may have been applied', error, context);
}

export function make(code: GuardErrorCode, what: string, cause: unknown, context: ErrorContext): GuardError {
  const why = cause instanceof Error ? `: ${cause.message}` : '';
  return new GuardError(code, `guard "${context.resource}": ${what}${why}`, {
    cause,
    resource: context.resource,
    token: context.token,
  });
}
