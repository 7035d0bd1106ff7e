// node:http, Express and Fastify: each only moves the gate's decision into its framework's own reply.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { invalid } from '../options.ts';
import {
  bindFencing,
  type FencedRequest,
  type Fencing,
  type FencingOptions,
  fencingGate,
  problemFor,
} from './fencing.ts';
import { answerWith, headersOf, type Problem } from './problem.ts';

/**
 * For node:http: a request listener that runs `handler` only under a token that the guard lets in. The handler
 * writes through `fencing.run`, which may still refuse; left uncaught, that refusal is answered too. Once the
 * reply has begun it is cut off instead, so that the client knows that it knows nothing.
 *
 * What else the handler throws comes out of the listener untouched, as from any asynchronous listener.
 *
 * @param handler - gets `undefined` instead of a fencing for the safe methods.
 * @throws GuardError `invalid-option`
 */
export function withFencing<Handle>(
  handler: (
    request: IncomingMessage,
    response: ServerResponse,
    fencing: Fencing<Handle> | undefined,
  ) => void | Promise<void>,
  options: FencingOptions<IncomingMessage, Handle>,
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  if (typeof handler !== 'function') throw invalid('handler', handler, 'expected a function');
  const open = fencingGate(options);
  return async (request, response) => {
    const opened = await open(request, request);
    if (opened.as === 'refused') return answerWith(response, opened.problem);
    const fencing = opened.as === 'fenced' ? opened.fencing : undefined;
    if (fencing !== undefined) bindFencing(request, fencing);
    try {
      await handler(request, response, fencing);
    } catch (error) {
      const problem = problemFor(request, error);
      if (problem === undefined) throw error;
      // Also where it has ended: perhaps it can still be kept from the client.
      if (response.headersSent) response.destroy();
      else answerWith(response, problem);
    }
  };
}

/** What Express calls after a middleware, with an error or without. */
export type ExpressNext = (error?: unknown) => void;

/**
 * For Express 4 and 5: middleware that lets a request pass only under a token that the guard lets in. The
 * handler takes `fencingOf(request)` and writes through its `run`. Mount {@link expressFencingErrors} after the
 * routes.
 * @throws GuardError `invalid-option`
 */
export function expressFencing<Request extends IncomingMessage, Handle>(
  options: FencingOptions<Request, Handle>,
): (request: Request, response: ServerResponse, next: ExpressNext) => void {
  const open = fencingGate(options);
  return (request, response, next) => {
    open(request, request).then((opened) => {
      if (opened.as === 'refused') return answerWith(response, opened.problem);
      if (opened.as === 'fenced') bindFencing(request, opened.fencing);
      next();
    }, next);
  };
}

/** Express error middleware: answers what `fencing.run` refused, and passes everything else on. */
export function expressFencingErrors(
  error: unknown,
  request: IncomingMessage,
  response: ServerResponse,
  next: ExpressNext,
): void {
  const problem = problemFor(request, error);
  if (problem === undefined || response.headersSent) next(error);
  else answerWith(response, problem);
}

/** What the hook needs of Fastify's request. */
export interface FastifyLikeRequest {
  readonly raw: IncomingMessage;
  readonly headers: FencedRequest['headers'];
  readonly method: string;
}

/** What the hook needs of Fastify's reply. */
export interface FastifyLikeReply {
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(payload: string): unknown;
}

/**
 * For Fastify 5: a hook (`preHandler` or earlier, of a route or a scope) that lets a request pass only under a
 * token that the guard lets in. The handler takes `fencingOf(request)` and writes through its `run`. Set
 * {@link fastifyFencingErrors} as the error handler.
 * @throws GuardError `invalid-option`
 */
export function fastifyFencing<Request extends FastifyLikeRequest, Handle>(
  options: FencingOptions<Request, Handle>,
): (request: Request, reply: FastifyLikeReply) => Promise<unknown> {
  const open = fencingGate(options);
  return async (request, reply) => {
    const { method, headers, raw } = request;
    const opened = await open(request, { method, headers, rawHeaders: raw.rawHeaders });
    if (opened.as === 'refused') return replyWith(reply, opened.problem);
    if (opened.as === 'fenced') bindFencing(request, opened.fencing);
    return undefined;
  };
}

/** Fastify error handler: answers what `fencing.run` refused, and throws everything else to the one around it. */
export async function fastifyFencingErrors(
  error: unknown,
  request: FastifyLikeRequest,
  reply: FastifyLikeReply,
): Promise<unknown> {
  const problem = problemFor(request, error);
  if (problem === undefined) throw error;
  return replyWith(reply, problem);
}

/** Fastify waits for the reply that an asynchronous hook returns. */
function replyWith(reply: FastifyLikeReply, problem: Problem): FastifyLikeReply {
  reply.code(problem.status);
  for (const [name, value] of Object.entries(headersOf(problem))) reply.header(name, value);
  reply.send(JSON.stringify(problem));
  return reply;
}
