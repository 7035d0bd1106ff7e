// A guard's own verbs over HTTP, so that a hold in another process can claim and seal it. Every verb is
// idempotent, and its answer names what was promised: a server that says yes to everything is no guard.
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  FencingToken,
  type Guard,
  type GuardAdmin,
  GuardError,
  type GuardMark,
  type GuardState,
} from '@lockkeeper/fencing';
import { checkFlag, invalid } from '../options.ts';
import { checkGuard, readToken } from './fencing.ts';
import { answerWith, type Problem, problemOf } from './problem.ts';

type ServedGuard = Guard & Partial<GuardAdmin>;

export interface FencingEndpointOptions<Request> {
  /** The guard, or how to find it. What that throws is the app's. */
  readonly guard: ServedGuard | ((request: Request) => ServedGuard | Promise<ServedGuard>);
  /**
   * Serve `state` and `rebase` too, where the guard has them. Whoever reaches them learns the token in force and
   * can put another lineage in force: for operators only. Default `false`.
   */
  readonly admin?: boolean | undefined;
}

/** The last segment of the URL, and the method it is asked by. */
export const ENDPOINT_METHODS = {
  claim: 'PUT',
  seal: 'PUT',
  check: 'PUT',
  rebase: 'PUT',
  state: 'GET',
} as const;

export type EndpointVerb = keyof typeof ENDPOINT_METHODS;

export const REBASE_FROM_HEADER = 'Fencing-Rebase-From';

/** What a verb answers when it is done. */
export interface EndpointReply {
  readonly verb: EndpointVerb;
  readonly resource: string;
  /** The token presented; with `state`, the one in force. */
  readonly token?: string | undefined;
  readonly sealed?: boolean | undefined;
  /** With `state`, while a reader's token is in force: the last writer's. */
  readonly writer?: { readonly token: string; readonly sealed: boolean } | undefined;
}

/**
 * Serves a guard for `httpGuard`: `PUT …/claim`, `…/seal` and `…/check` under a `Fencing-Token` header. A listener
 * of node:http and a handler of Express; in Fastify call it with `request.raw` and `reply.raw` after
 * `reply.hijack()`.
 *
 * Anybody who reaches it can shut the holder out with an invented token: authenticate its callers, or serve a
 * `verifiedGuard`.
 *
 * @throws GuardError `invalid-option`
 */
export function fencingEndpoint<Request extends IncomingMessage = IncomingMessage>(
  options: FencingEndpointOptions<Request>,
): (request: Request, response: ServerResponse, next?: (error?: unknown) => void) => Promise<void> {
  const { guard } = Object(options) as FencingEndpointOptions<Request>;
  if (typeof guard !== 'function') checkGuard(guard);
  const admin = checkFlag('admin', options.admin, false);

  return async (request, response, next) => {
    // Not by URL, which throws at some of what anybody may send.
    const [path = '', query = ''] = (request.url ?? '').split('?', 2);
    const verb = verbOf(path, admin);
    if (verb === undefined) {
      if (next === undefined) response.writeHead(404).end();
      else next();
      return;
    }
    if (request.method !== ENDPOINT_METHODS[verb]) {
      response.writeHead(405, { allow: ENDPOINT_METHODS[verb] }).end();
      return;
    }
    try {
      const chosen = typeof guard === 'function' ? checkGuard(await guard(request)) : guard;
      answer(response, await serve(verb, chosen, request, new URLSearchParams(query)));
    } catch (error) {
      if (next === undefined) throw error;
      next(error);
    }
  };
}

function verbOf(path: string, admin: boolean): EndpointVerb | undefined {
  const verb = path.slice(path.lastIndexOf('/') + 1);
  if (!Object.hasOwn(ENDPOINT_METHODS, verb)) return undefined;
  if (!admin && (verb === 'rebase' || verb === 'state')) return undefined;
  return verb as EndpointVerb;
}

async function serve(
  verb: EndpointVerb,
  guard: ServedGuard,
  request: IncomingMessage,
  query: URLSearchParams,
): Promise<EndpointReply | Problem> {
  const { resource } = guard;
  try {
    if (verb === 'state') return { verb, resource, ...stateOf(await admin(guard).inspect()) };
    const presented = readToken(request);
    if ('problem' in presented) return presented.problem;
    const { token } = presented;
    if (verb === 'claim') await guard.claim(token);
    else if (verb === 'seal') await guard.seal(token);
    else if (verb === 'check') await check(guard, token, query.get('requireClaim'));
    else await admin(guard).rebase(token, { from: rebaseFrom(request) });
    return { verb, resource, token: `${token}` };
  } catch (error) {
    if (error instanceof GuardError) return problemOf(error);
    throw error;
  }
}

/** An empty run: advances where a run would, and applies nothing, whatever becomes of it. */
async function check(guard: ServedGuard, token: FencingToken, requireClaim: string | null): Promise<void> {
  if (requireClaim !== null && requireClaim !== 'true' && requireClaim !== 'false')
    throw invalid('requireClaim', requireClaim, 'expected true or false');
  await guard.run(
    token,
    () => undefined,
    requireClaim === null ? {} : { requireClaim: requireClaim === 'true' },
  );
}

function admin(guard: ServedGuard): GuardAdmin {
  const { inspect, rebase } = guard;
  if (inspect !== undefined && rebase !== undefined) return guard as GuardAdmin;
  throw new GuardError('invalid-option', `guard "${guard.resource}" has no inspect and no rebase`);
}

function rebaseFrom(request: IncomingMessage): FencingToken {
  const value = request.headers[REBASE_FROM_HEADER.toLowerCase()];
  if (typeof value === 'string') return FencingToken.parse(value);
  throw new GuardError('invalid-option', `${REBASE_FROM_HEADER} is missing; expected the token in force`);
}

function stateOf(state: GuardState | undefined): Pick<EndpointReply, 'token' | 'sealed' | 'writer'> {
  if (state === undefined) return {};
  const shown = ({ token, sealed }: GuardMark) => ({ token: `${token}`, sealed });
  return { ...shown(state), ...(state.writer && { writer: shown(state.writer) }) };
}

function answer(response: ServerResponse, reply: EndpointReply | Problem): void {
  if ('status' in reply) {
    answerWith(response, reply);
    return;
  }
  // Somebody else answered meanwhile, such as a limit on the time of requests.
  if (response.headersSent) return;
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
  response.writeHead(200, headers).end(JSON.stringify(reply));
}
