// What a guarded service answers instead of its handler's reply: one problem document (RFC 9457) for each code
// that a guard can give. Both sides read this one table.
import type { ServerResponse } from 'node:http';
import { FencingToken, GuardError, type GuardErrorCode } from '@lockkeeper/fencing';

export const PROBLEM_CONTENT_TYPE = 'application/problem+json';

/** `missing-token`: the request carried no `Fencing-Token`, or something on the way took it out. */
export type ProblemCode = GuardErrorCode | 'missing-token';

/** A problem document. `type` is `urn:lockkeeper:guard:` and the code. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ProblemCode;
  readonly resource?: string | undefined;
  /** The token that was presented. */
  readonly token?: string | undefined;
  /** The token in force, where the guard told. */
  readonly current?: string | undefined;
}

interface Answer {
  readonly status: number;
  readonly title: string;
  /** What is said instead of the error's own words, which may speak of the inside of the service. */
  readonly detail?: string;
}

const refused = (title: string): Answer => ({ status: 412, title });
const notApplied = (title: string, detail: string): Answer => ({ status: 503, title, detail });

/**
 * 412: a guard decided against the token. 428: no token. 400: no usable token. 409, and nothing else is: nothing
 * was applied, send the same request again. 503: nothing was applied, for a reason that says nothing about the
 * token. 500: nobody knows; the status that proxies and clients are least inclined to repeat by themselves.
 */
const ANSWERS: Readonly<Record<ProblemCode, Answer>> = {
  'stale-token': refused('A newer token is in force'),
  sealed: refused('The hold of this token was finished'),
  'conflicting-token': refused('Another grant has the same revision'),
  'foreign-lineage': refused('The token belongs to another etcd history'),
  unclaimed: refused('The token never claimed this resource'),
  unverified: refused('The token is not in force'),
  'not-confirmed': refused('Another state was confirmed than the one in force'),
  'missing-token': { status: 428, title: 'Fencing-Token required' },
  'invalid-token': { status: 400, title: 'Malformed Fencing-Token' },
  'invalid-option': { status: 400, title: 'Malformed request' },
  retry: { status: 409, title: 'Send the request again', detail: 'nothing was applied; repeat the request' },
  unavailable: notApplied(
    'The guard is not available',
    'nothing was applied: the guard could not be reached',
  ),
  timeout: notApplied('The guard took too long', "nothing was applied: the guard's own limit passed"),
  'not-migrated': notApplied('The guard is not set up', 'nothing was applied: the guard lacks its record'),
  unknown: { status: 500, title: 'Outcome unknown', detail: 'applied or not: nobody can say' },
};

const TYPE_PREFIX = 'urn:lockkeeper:guard:';

/** @param detail - default: the error's message for refusals, else what is fit for any reader. */
export function problemOf(
  error: GuardError,
  code: ProblemCode = error.code,
  detail: string = ANSWERS[code].detail ?? error.message,
): Problem {
  const { status, title } = ANSWERS[code];
  const { resource, token, current } = error;
  return {
    type: `${TYPE_PREFIX}${code}`,
    title,
    status,
    detail,
    code,
    ...(resource !== undefined && { resource }),
    ...(token !== undefined && { token: `${token}` }),
    ...(current !== undefined && { current: `${current}` }),
  };
}

export function headersOf(problem: Problem): Record<string, string> {
  return {
    'content-type': PROBLEM_CONTENT_TYPE,
    'cache-control': 'no-store',
    ...(problem.code === 'retry' && { 'retry-after': '1' }),
  };
}

/**
 * A reply that has begun is cut off, so that the client knows that it knows nothing; one that somebody else gave
 * meanwhile, such as a limit on the time of requests, stays.
 */
export function answerWith(response: ServerResponse, problem: Problem): void {
  if (!response.headersSent) {
    response.writeHead(problem.status, headersOf(problem)).end(JSON.stringify(problem));
  } else if (!response.writableEnded) {
    response.destroy();
  }
}

/**
 * The error that a guarded service's answer stands for; `undefined` where it is no problem document of ours, or
 * came under another status than the one it was given.
 */
export function readProblem(status: number, body: string, token: FencingToken | undefined) {
  const problem = parse(body);
  if (problem === undefined) return undefined;
  const { type, code, detail, resource, current } = problem;
  if (typeof code !== 'string' || !Object.hasOwn(ANSWERS, code) || type !== `${TYPE_PREFIX}${code}`)
    return undefined;
  const known = code as ProblemCode;
  if (ANSWERS[known].status !== status) return undefined;
  const details = {
    ...(typeof resource === 'string' && { resource }),
    token,
    current: typeof current === 'string' ? tokenOrNot(current) : undefined,
  };
  const said = typeof detail === 'string' ? detail : ANSWERS[known].title;
  if (known !== 'missing-token') return new GuardError(known, said, details);
  return new GuardError(
    'invalid-token',
    `${said}; it was sent, so something on the way takes it out`,
    details,
  );
}

function parse(body: string): { readonly [member in keyof Problem]?: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function tokenOrNot(text: string): FencingToken | undefined {
  try {
    return FencingToken.parse(text);
  } catch {
    return undefined;
  }
}
