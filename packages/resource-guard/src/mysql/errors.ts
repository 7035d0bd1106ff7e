// Which of the three outcomes an error of the server or of its connection means.
import { type FencingToken, GuardError, type GuardErrorCode } from '@lockkeeper/fencing';

export interface ErrorContext {
  readonly resource: string;
  readonly token?: FencingToken | undefined;
  /** The guard's table as SQL names it. */
  readonly table: string;
}

/** The number of an error that the server sent; `undefined` for the connection's and the driver's own. */
export function serverErrno(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { errno, sqlState } = error as { readonly errno?: unknown; readonly sqlState?: unknown };
  return typeof errno === 'number' && errno > 0 && typeof sqlState === 'string' ? errno : undefined;
}

/** Deadlock; record changed since the snapshot (MariaDB). The server has undone the transaction. */
export function isRetry(error: unknown): boolean {
  const errno = serverErrno(error);
  return errno === 1213 || errno === 1020;
}

/** Server shutdown, connection killed, idle for too long: the server's last words on a connection. */
const LAST_WORDS = [1053, 1152, 1184, 1927, 3169, 4031];

/** Losing a connection silently is its `error` or `end` event instead. */
export function endsConnection(error: unknown): boolean {
  const errno = serverErrno(error);
  if (errno !== undefined) return LAST_WORDS.includes(errno);
  return typeof error === 'object' && error !== null && (error as { fatal?: unknown }).fatal === true;
}

/** An error before COMMIT was sent: certainly nothing was applied. */
export function notApplied(error: unknown, context: ErrorContext): GuardError {
  if (error instanceof GuardError) return error;
  if (isRetry(error)) return make('retry', 'the server asks to run the call again', error, context);
  const errno = serverErrno(error);
  if (errno === 1205 || errno === 1969 || errno === 3024) {
    return make('timeout', 'waited too long for its turn or for a statement', error, context);
  }
  if (errno === 1146 || errno === 1054 || errno === 1046 || errno === 1049) {
    const way = 'call guard.migrate() once at deployment, or run the SQL that mysqlGuardSql() prints';
    const what = `the table ${context.table} is missing or of another shape; ${way}`;
    return make('not-migrated', what, error, context);
  }
  return make(
    'unavailable',
    'the server refused or could not be reached; nothing was applied',
    error,
    context,
  );
}

/**
 * Refusals that leave no doubt although COMMIT was in the message: Galera's deadlock at COMMIT, a server that
 * is read-only, missing privileges, a missing table.
 */
const DEFINITE = [1213, 1290, 1836, 1142, 1143, 1146, 1054];

/** An error after COMMIT was sent. */
export function maybeApplied(error: unknown, context: ErrorContext): GuardError {
  if (error instanceof GuardError) return error;
  if (DEFINITE.includes(serverErrno(error) ?? 0)) return notApplied(error, context);
  return make('unknown', 'the reply to COMMIT was lost; it may have been applied', error, context);
}

export function make(code: GuardErrorCode, what: string, cause: unknown, context: ErrorContext): GuardError {
  const why = cause instanceof Error ? `: ${cause.message}` : '';
  return new GuardError(code, `guard "${context.resource}": ${what}${why}`, {
    cause,
    resource: context.resource,
    token: context.token,
  });
}
