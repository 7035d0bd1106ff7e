// A guard that another service serves. Its promises are the service's: nothing counts as promised unless the
// answer names the verb, the resource and the token.
import {
  FENCING_TOKEN_HEADER,
  FencingToken,
  formatFencingHeader,
  type Guard,
  type GuardAdmin,
  type GuardCallOptions,
  GuardError,
  type GuardMark,
  type GuardState,
  type RebaseOptions,
  type RunOptions,
} from '@lockkeeper/fencing';
import { onAbort, untilAborted } from '../abort.ts';
import { checkEffect, checkFlag, checkMs, checkResource, checkToken, invalid } from '../options.ts';
import { EffectFetch } from './effect-fetch.ts';
import { ENDPOINT_METHODS, type EndpointReply, type EndpointVerb, REBASE_FROM_HEADER } from './endpoint.ts';
import { checkFetch, checkTarget, exchange, type Fetch, refusalIn } from './fenced-fetch.ts';

export interface HttpGuardOptions {
  /** The resource that the service's guard is about; an answer of another one is no promise. */
  readonly resource: string;
  /** Reject tokens that never claimed with `unclaimed`. Default: the service's setting. */
  readonly requireClaim?: boolean | undefined;
  /** Sent to the guard's own endpoint, such as `authorization`; an effect's requests bring their own. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** How long one call of the guard itself may take. Default 20,000 ms. */
  readonly timeoutMs?: number | undefined;
  /** Default: the global `fetch`, looked up at each call. One that retries by itself hides what became of a call. */
  readonly fetch?: Fetch | undefined;
}

/**
 * The guard of a service that serves it by `fencingEndpoint` at `url`: to claim and seal it with a hold
 * (`acquire({ claims: [guard] })`), and to send it requests under the hold's token.
 *
 * **A run is no transaction.** It asks the service whether the token is in force, then gives the effect a
 * {@link fencedFetch} whose relative URLs start at `url`. Each request through it is fenced by itself, in the
 * service; what the requests before a refused one did stays done. So a claim waits for the requests that are in
 * flight, not for the effects.
 *
 * **Outcomes**: as the service's guard told. No connection is `unavailable`; a claim or a seal whose reply was lost or
 * late is `unknown`, and may be repeated. Before the effect has begun nothing is unknown.
 *
 * `inspect` and `rebase` work where the endpoint serves them, which it does not by default.
 *
 * @param url - the endpoint, without the verb: `https://billing.internal/fencing/invoices/`.
 * @throws GuardError `invalid-option`
 */
export function httpGuard(url: string | URL, options: HttpGuardOptions): Guard<Fetch> & GuardAdmin {
  return new HttpGuard(url, options);
}

/** What came back; whether it says what it should is yet to be seen. */
type Reply = { readonly [member in keyof EndpointReply]?: unknown };

interface Question {
  readonly token?: FencingToken | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly query?: string | undefined;
}

class HttpGuard implements Guard<Fetch>, GuardAdmin {
  readonly resource: string;
  readonly #base: URL;
  readonly #requireClaim: boolean | undefined;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;
  readonly #fetch: Fetch | undefined;

  constructor(url: string | URL, options: HttpGuardOptions) {
    this.#base = checkUrl(url);
    this.resource = checkResource(options?.resource);
    this.#requireClaim =
      options.requireClaim === undefined ? undefined : checkFlag('requireClaim', options.requireClaim, false);
    this.#headers = checkHeaders(options.headers);
    this.#timeoutMs = checkMs('timeoutMs', options.timeoutMs, 20_000);
    checkFetch(options.fetch);
    this.#fetch = options.fetch;
  }

  async claim(presented: FencingToken, { signal }: GuardCallOptions = {}): Promise<void> {
    await this.#ask('claim', { token: checkToken(presented), signal });
  }

  async seal(presented: FencingToken, { signal }: GuardCallOptions = {}): Promise<void> {
    await this.#ask('seal', { token: checkToken(presented), signal });
  }

  async run<T>(
    presented: FencingToken,
    effect: (handle: Fetch) => T | Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const token = checkToken(presented);
    checkEffect(effect);
    const { signal } = options;
    const required = options.requireClaim ?? this.#requireClaim;
    const query = required === undefined ? '' : `?requireClaim=${checkFlag('requireClaim', required, false)}`;
    await this.#ask('check', { token, signal, query });
    signal?.throwIfAborted();
    const handle = new EffectFetch(token, this.#base, this.#fetch, signal);
    const settled = (async () => effect(handle.fetch))();
    try {
      return await untilAborted(settled, signal);
    } catch (error) {
      if (!signal?.aborted || error !== signal.reason || !handle.used) throw error;
      const what = `guard "${this.resource}": stopped waiting; the effect had sent requests already`;
      throw new GuardError('unknown', what, { cause: error, resource: this.resource, token });
    } finally {
      handle.end();
    }
  }

  async inspect({ signal }: GuardCallOptions = {}): Promise<GuardState | undefined> {
    const { token, sealed, writer } = await this.#ask('state', { signal });
    if (token === undefined) return undefined;
    const mark = (of: { readonly token?: unknown; readonly sealed?: unknown }): GuardMark => ({
      token: FencingToken.parse(String(of.token)),
      sealed: of.sealed === true,
    });
    return { ...mark({ token, sealed }), ...(writer !== undefined && { writer: mark(Object(writer)) }) };
  }

  async rebase(presented: FencingToken, options: RebaseOptions): Promise<void> {
    const token = checkToken(presented);
    const headers = { [REBASE_FROM_HEADER]: `${checkToken(options?.from)}` };
    await this.#ask('rebase', { token, signal: options.signal, headers });
  }

  /** One verb, sent once. */
  async #ask(verb: EndpointVerb, question: Question): Promise<Reply> {
    const { token, signal } = question;
    signal?.throwIfAborted();
    const limit = new Limit(this.#timeoutMs, signal);
    try {
      return await this.#exchange(verb, question, limit.signal);
    } catch (error) {
      if (!(error instanceof GuardError)) throw error;
      // A check, and a look at the state, apply nothing: to those who asked it failed.
      const harmless = verb === 'check' || verb === 'state';
      if (error.code !== 'unknown' || !harmless) throw this.#named(error, error.code, token);
      signal?.throwIfAborted();
      throw this.#named(error, limit.passed ? 'timeout' : 'unavailable', token);
    } finally {
      limit.end();
    }
  }

  async #exchange(verb: EndpointVerb, question: Question, signal: AbortSignal): Promise<Reply> {
    const { token, query = '' } = question;
    const target = new URL(`${verb}${query}`, this.#base);
    const fenced = token === undefined ? {} : { [FENCING_TOKEN_HEADER]: formatFencingHeader(token) };
    const headers = { ...this.#headers, ...question.headers, ...fenced };
    const init: RequestInit = { method: ENDPOINT_METHODS[verb], headers, signal, redirect: 'manual' };
    const response = await exchange(this.#fetch, target, init, token);
    const refusal = await refusalIn(response, token);
    if (refusal !== undefined) throw refusal;
    const body = await response.text().catch((cause: unknown) => {
      throw new GuardError('unknown', `HTTP ${response.status}, and the rest of the reply was lost`, {
        cause,
        token,
      });
    });
    const reply = response.status === 200 ? readReply(body) : undefined;
    const promised = reply?.verb === verb && reply.resource === this.resource;
    if (promised && (token === undefined || reply.token === `${token}`)) return reply;
    const code = response.status >= 500 ? 'unknown' : 'unavailable';
    const what = `${target.origin}${target.pathname} answered ${response.status}, which promises nothing for "${this.resource}"`;
    throw new GuardError(code, what, { token });
  }

  #named(error: GuardError, code: GuardError['code'], token: FencingToken | undefined): GuardError {
    const { current } = error;
    const message = error.message.startsWith('guard ')
      ? error.message
      : `guard "${this.resource}": ${error.message}`;
    return new GuardError(code, message, { cause: error, resource: this.resource, token, current });
  }
}

/** The caller's signal and our own limit, whichever is first. (`AbortSignal.any` leaks on Node 20.) */
class Limit {
  passed = false;
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #forget: (() => void) | undefined;

  constructor(timeoutMs: number, signal: AbortSignal | undefined) {
    this.#timer = setTimeout(() => {
      this.passed = true;
      this.#controller.abort(new GuardError('timeout', `no answer within timeoutMs ${timeoutMs}`));
    }, timeoutMs);
    this.#forget = signal && onAbort(signal, () => this.#controller.abort(signal.reason));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#forget?.();
  }
}

function readReply(body: string): Reply | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function checkUrl(value: unknown): URL {
  const text = value instanceof URL ? value.href : value;
  if (typeof text !== 'string' || !URL.canParse(text))
    throw invalid('url', value, 'expected an absolute URL');
  const url = checkTarget(new URL(text));
  if (url.search !== '' || url.hash !== '')
    throw invalid('url', text, 'expected none with query or fragment');
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

function checkHeaders(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined) return {};
  try {
    const names = [...new Headers(value as Record<string, string>).keys()];
    if (!names.includes(FENCING_TOKEN_HEADER.toLowerCase())) return { ...(value as Record<string, string>) };
  } catch {
    // Reported below.
  }
  throw invalid(
    'headers',
    value,
    `expected names and values of HTTP headers, without ${FENCING_TOKEN_HEADER}`,
  );
}
