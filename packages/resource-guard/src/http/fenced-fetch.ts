// The client's side: the token goes with every request, and every way in which a request can end is one of the
// guard's outcomes or the service's own reply. Nothing is sent twice.
import {
  FENCING_TOKEN_HEADER,
  type FencingToken,
  formatFencingHeader,
  GuardError,
} from '@lockkeeper/fencing';
import { checkToken, invalid } from '../options.ts';
import { PROBLEM_CONTENT_TYPE, readProblem } from './problem.ts';

/** `fetch`, as Node has it. */
export type Fetch = typeof globalThis.fetch;

export interface FencedFetchOptions {
  /** Default: the global `fetch`, looked up at each call. One that retries by itself hides what became of a call. */
  readonly fetch?: Fetch | undefined;
  /** What relative URLs are relative to. */
  readonly baseUrl?: string | URL | undefined;
}

/** Answers that gateways give about a service that they got no good answer from. */
const GATEWAY_STATUSES: ReadonlySet<number> = new Set([502, 504]);

/**
 * A `fetch` that sends `token` with every request, for services behind `withFencing` and its like.
 *
 * - What the service's guard refused rejects with a {@link GuardError} of the guard's code, and is certainly
 *   not applied. Every other reply is the caller's, whatever its status, except 502 and 504 of a gateway.
 * - A connection that could not be made: `unavailable`, nothing was sent. Lost after that, a signal that aborted
 *   after that, 502 and 504: `unknown`, the request may have been carried out, or yet be.
 * - Nothing is repeated and no redirect followed: a 3xx is the caller's, and the token stays with the origin.
 *
 * Fencing is not idempotency: a request of the same holder that is sent again is carried out again.
 *
 * @throws GuardError `invalid-token`
 */
export function fencedFetch(token: FencingToken, options: FencedFetchOptions = {}): Fetch {
  const checked = checkToken(token);
  checkFetch(options.fetch);
  return async (input, init) => {
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    if (headers.has(FENCING_TOKEN_HEADER)) {
      throw invalid(FENCING_TOKEN_HEADER, headers.get(FENCING_TOKEN_HEADER), 'fencedFetch sets it itself');
    }
    if (init?.redirect !== undefined && init.redirect !== 'manual') {
      throw invalid('redirect', init.redirect, 'expected "manual": the token must not follow a redirect');
    }
    headers.set(FENCING_TOKEN_HEADER, formatFencingHeader(checked));
    const target = targetOf(input, options.baseUrl);
    const response = await exchange(options.fetch, target, { ...init, headers, redirect: 'manual' }, checked);
    const refusal = await refusalIn(response, checked);
    if (refusal !== undefined) throw refusal;
    return response;
  };
}

/** One request and the head of its reply. */
export async function exchange(
  fetch: Fetch = globalThis.fetch,
  target: Request | URL,
  init: RequestInit,
  token: FencingToken | undefined,
): Promise<Response> {
  const signal = init.signal ?? (target instanceof Request ? target.signal : undefined);
  signal?.throwIfAborted();
  try {
    return await fetch(target, init);
  } catch (cause) {
    const what = `${init.method ?? (target instanceof Request ? target.method : 'GET')} ${shown(target)}`;
    if (neverSent(cause)) {
      throw new GuardError('unavailable', `${what}: no connection, nothing was sent`, { cause, token });
    }
    const why = signal?.aborted ? 'stopped waiting' : 'the reply was lost';
    throw new GuardError('unknown', `${what}: ${why}; carried out or not, nobody can say`, { cause, token });
  }
}

/** The error that a reply stands for; where there is none the body is left to the caller. */
export async function refusalIn(
  response: Response,
  token: FencingToken | undefined,
): Promise<GuardError | undefined> {
  const { status } = response;
  const type = response.headers.get('content-type')?.split(';')[0];
  if (type?.trim().toLowerCase() === PROBLEM_CONTENT_TYPE) {
    let body: string;
    try {
      body = await response.clone().text();
    } catch (cause) {
      return new GuardError('unknown', `HTTP ${status}, and the rest of the reply was lost`, {
        cause,
        token,
      });
    }
    const refusal = readProblem(status, body, token);
    if (refusal !== undefined) {
      await response.body?.cancel();
      return refusal;
    }
  }
  if (!GATEWAY_STATUSES.has(status)) return undefined;
  await response.body?.cancel();
  return new GuardError('unknown', `HTTP ${status} from a gateway: carried out or not, nobody can say`, {
    token,
  });
}

export function checkFetch(fetch: unknown): void {
  if (fetch !== undefined && typeof fetch !== 'function')
    throw invalid('fetch', fetch, 'expected a function');
}

function targetOf(input: Request | URL | string, base: string | URL | undefined): Request | URL {
  if (input instanceof Request) return input;
  const text = String(input);
  if (URL.canParse(text, base?.toString())) return checkTarget(new URL(text, base));
  throw invalid('url', input, base === undefined ? 'expected an absolute URL' : `no URL relative to ${base}`);
}

/** What `fetch` would refuse without sending anything. */
export function checkTarget(url: URL): URL {
  if (!/^https?:$/.test(url.protocol)) throw invalid('url', shown(url), 'expected http or https');
  if (url.username !== '' || url.password !== '')
    throw invalid('url', shown(url), 'expected none with user and password; send an authorization header');
  return url;
}

/** Without what may be secret in it. */
function shown(target: Request | URL): string {
  const { protocol, host, pathname } = target instanceof Request ? new URL(target.url) : target;
  return `${protocol}//${host}${pathname}`;
}

/** Codes of system calls that come before any byte of a request. */
const BEFORE_SENDING: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Whether a failure is certainly one of connecting. Whatever is not known for sure is not. */
function neverSent(error: unknown): boolean {
  // Not by its class, which is another one where tests run in a realm of their own.
  if (typeof error !== 'object' || error === null) return false;
  const { code, syscall, errors, cause } = error as {
    readonly code?: unknown;
    readonly syscall?: unknown;
    readonly errors?: unknown;
    readonly cause?: unknown;
  };
  // One for each address that was tried.
  if (Array.isArray(errors) && errors.length > 0) return errors.every(neverSent);
  return BEFORE_SENDING.has(code) || syscall === 'connect' || (cause !== undefined && neverSent(cause));
}
