// Which of the outcomes an error of Redis, or of the way to it, means.
import { type FencingToken, GuardError, type GuardErrorCode } from '@lockkeeper/fencing';

export interface ErrorContext {
  readonly resource: string;
  readonly token?: FencingToken | undefined;
}

/** Refusals before the script wrote anything, by the first word of Redis's reply. */
const REFUSALS: Readonly<Record<string, string>> = {
  READONLY: 'the server is a replica, which takes no writes; connect to the primary',
  LOADING: 'the server is loading its data',
  MASTERDOWN: 'the server is a replica that lost its primary',
  MISCONF: 'the server takes no writes, since it cannot save its data',
  NOREPLICAS: 'the server takes no writes, since too few replicas follow it',
  BUSY: 'another script keeps the server busy',
  OOM: 'the server is at its maxmemory',
  NOPERM: "the ACL of the client's user lacks a right",
  NOAUTH: 'the client has not authenticated itself',
  WRONGPASS: 'the client has not authenticated itself',
  CLUSTERDOWN: 'the cluster does not serve this hash slot',
  MOVED: 'this hash slot is on another node of the cluster; use a cluster client',
  ASK: 'this hash slot is moving to another node of the cluster; use a cluster client',
  CROSSSLOT: 'the keys are in several hash slots',
  WRONGTYPE: "the key of the guard's record holds something else",
  NOSCRIPT: 'the server forgets scripts as fast as they are sent',
  UNKILLABLE: 'another script keeps the server busy',
};

/** The first word of an error that Redis itself sent; `undefined` for the client's and the network's own. */
export function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = /^-?([A-Z][A-Z0-9]+) /.exec(error.message)?.[1];
  // Both drivers make their own errors too; those begin like a sentence, or carry Node's codes.
  return code === undefined || 'syscall' in error ? undefined : code;
}

/**
 * An error instead of the script's answer. Definite only where Redis refused and no earlier copy of the same
 * script may have been carried out (`mayBeCopy`).
 */
export function failure(error: unknown, mayBeCopy: boolean, context: ErrorContext): GuardError {
  const code = replyCode(error);
  const text = error instanceof Error ? error.message : '';
  // What Redis says where a script lacks a right, before it wrote: rights to the effect's commands are caught.
  const isRight = /The user executing the script can't/.test(text);
  const refusal = code === undefined ? undefined : REFUSALS[isRight ? 'NOPERM' : code];
  const inScript = text.includes('user_script');
  const definite = refusal !== undefined || (code !== undefined && !inScript);
  if (!definite) return make('unknown', 'the reply was lost; it may have been applied', error, context);
  if (mayBeCopy) {
    const what = 'the connection was lost, and this answers what the client sent again after an earlier copy';
    return make('unknown', what, error, context);
  }
  if (code === 'TRYAGAIN') return make('retry', 'the hash slot is moving to another node', error, context);
  return make('unavailable', `${refusal ?? 'Redis refused'}; nothing was applied`, error, context);
}

/** The client refused before it sent anything. */
export function isUnsent(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^(The client is (closed|offline)|The queue is full|Stream isn't writeable|Cluster isn't ready)/.test(
      error.message,
    )
  );
}

export function make(code: GuardErrorCode, what: string, cause: unknown, context: ErrorContext): GuardError {
  const why = cause instanceof Error ? `: ${cause.message}` : '';
  return new GuardError(code, `guard "${context.resource}": ${what}${why}`, {
    cause,
    resource: context.resource,
    token: context.token,
  });
}
