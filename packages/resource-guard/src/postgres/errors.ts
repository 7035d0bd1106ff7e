// Which of the three outcomes an error of PostgreSQL or of its connection means.
import { type FencingToken, GuardError, type GuardErrorCode } from '@lockkeeper/fencing';

export interface ErrorContext {
  readonly resource: string;
  readonly token?: FencingToken | undefined;
  /** The guard's table as SQL names it. */
  readonly table: string;
}

/** The SQLSTATE of an error that the server sent; `undefined` for the connection's and the driver's own. */
export function sqlState(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { code, severity } = error as { readonly code?: unknown; readonly severity?: unknown };
  return typeof code === 'string' && typeof severity === 'string' ? code : undefined;
}

/** Serialization failure and deadlock: PostgreSQL asks to run the transaction again. */
export function isRetry(error: unknown): boolean {
  const state = sqlState(error);
  return state === '40001' || state === '40P01';
}

/** The server's last words on a connection. Losing it silently is the client's `error` event instead. */
export function endsConnection(error: unknown): boolean {
  return /^(08|57P|XX|25P03|25P04)/.test(sqlState(error) ?? '');
}

/** An error before COMMIT was sent: certainly nothing was applied. */
export function notApplied(error: unknown, context: ErrorContext): GuardError {
  if (error instanceof GuardError) return error;
  const state = sqlState(error);
  if (isRetry(error)) return make('retry', 'PostgreSQL asks to run the call again', error, context);
  if (state === '57014' || state === '55P03') {
    return make('timeout', 'waited too long for its turn or for a statement', error, context);
  }
  if (state === '42P01' || state === '3F000' || state === '42703') {
    const way = 'call guard.migrate() once at deployment, or run the SQL that postgresGuardSql() prints';
    return make(
      'not-migrated',
      `the table ${context.table} is missing or of another shape; ${way}`,
      error,
      context,
    );
  }
  return make(
    'unavailable',
    'PostgreSQL refused or could not be reached; nothing was applied',
    error,
    context,
  );
}

/** An error after COMMIT was sent: definite only where the server said so and lives on. */
export function maybeApplied(error: unknown, context: ErrorContext): GuardError {
  if (error instanceof GuardError) return error;
  const state = sqlState(error);
  const doubtful = state === undefined || /^(08|53|57|58|F0|XX|40003|25P03|25P04)/.test(state);
  // 57014: PostgreSQL cancels a COMMIT only before the point of no return.
  if (!doubtful || state === '57014') return notApplied(error, context);
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
