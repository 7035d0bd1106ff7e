// The errors of this guard, and what an error of the SDK says about whether a request was carried out.
import { type FencingToken, GuardError, type GuardErrorCode } from '@lockkeeper/fencing';
import { OutOfTime } from './budget.ts';

export interface ErrorContext {
  readonly resource: string;
  readonly bucket: string;
  readonly key: string;
  readonly token?: FencingToken | undefined;
}

export function make(code: GuardErrorCode, what: string, cause: unknown, context: ErrorContext): GuardError {
  const why = cause instanceof Error ? `: ${cause.name}: ${cause.message}` : '';
  return new GuardError(code, `guard "${context.resource}": ${what}${why}`, {
    cause,
    resource: context.resource,
    token: context.token,
  });
}

/** An error of something that changes nothing, or that certainly was not carried out. */
export function notApplied(error: unknown, what: string, context: ErrorContext): GuardError {
  if (error instanceof GuardError) return error;
  if (error instanceof OutOfTime) return make('timeout', `${what}; nothing was applied`, error, context);
  return make('unavailable', `${what}; nothing was applied`, error, context);
}

export function missingRecord(what: string, context: ErrorContext): GuardError {
  const way = 'call guard.create() once at deployment; if tokens were in use already, see the docs first';
  return make('not-migrated', `${context.bucket}/${context.key} ${what}; ${way}`, undefined, context);
}

/** The status the store answered with, `undefined` where it did not. */
export function statusOf(error: unknown): number | undefined {
  return metadataOf(error).httpStatusCode;
}

/** What a proxy may answer when it has waited in vain for a store that carried the request out. */
const BY_PROXIES: ReadonlySet<number> = new Set([408, 499]);

/**
 * Whether the request behind `error` was certainly not carried out. The SDK repeats a request whose reply it
 * lost, and then tells only how the last try ended: so an answer counts only where there was one try. And a 503
 * only where S3 itself says that it refused: proxies answer it too where the store's reply was lost, and the SDK
 * reports an error inside a 200 as one.
 */
export function certainlyRefused(error: unknown): boolean {
  const { httpStatusCode: status, attempts } = metadataOf(error);
  if (attempts !== 1) return false;
  if (status === 503) return (error as Error).name === 'SlowDown';
  if (status !== undefined)
    return (status >= 400 && status < 500 && !BY_PROXIES.has(status)) || status === 501;
  return ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'].includes((error as { code?: string }).code ?? '');
}

function metadataOf(error: unknown): { readonly httpStatusCode?: number; readonly attempts?: number } {
  const known = typeof error === 'object' && error !== null && '$metadata' in error;
  return known ? ((error.$metadata as object | undefined) ?? {}) : {};
}
