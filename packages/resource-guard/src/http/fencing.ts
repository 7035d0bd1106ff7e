// One request under its token. Whatever a handler does with the guard goes through here, so that a refusal is
// answered as definite only where nothing of the request was applied.
import {
  type FencingToken,
  type Guard,
  GuardError,
  parseFencingHeader,
  type RunOptions,
} from '@lockkeeper/fencing';
import { checkEffect, checkFlag, describe, invalid } from '../options.ts';
import { type Problem, problemOf } from './problem.ts';

/** What a handler gets: the token of its request, and the guard bound to it. */
export interface Fencing<Handle = unknown> {
  readonly token: FencingToken;
  /** The resource of the guard that was chosen for this request. */
  readonly resource: string;
  /**
   * {@link Guard.run} under the request's token: the fence itself. The check before the handler only spares
   * work; what is written past `run` is not fenced.
   */
  run<T>(effect: (handle: Handle) => T | Promise<T>, options?: Pick<RunOptions, 'signal'>): Promise<T>;
  /**
   * For the other ways that a guard has, such as `() => guard.query(fencing.token, sql)`: a GuardError out
   * of `guarded` is answered as one out of `run` is.
   */
  call<T>(guarded: () => Promise<T>): Promise<T>;
}

export interface FencingOptions<Request, Handle = unknown> {
  /** The guard of the resource that the request is about, or how to find it. What that throws is the app's. */
  readonly guard: Guard<Handle> | ((request: Request) => Guard<Handle> | Promise<Guard<Handle>>);
  /** Refuse a token that never claimed, with `unclaimed`. Default: the guard's own setting. */
  readonly requireClaim?: boolean | undefined;
  /** Methods that need no token and get no `Fencing`. Default `GET`, `HEAD` and `OPTIONS`. */
  readonly safeMethods?: readonly string[] | undefined;
}

/** What of a request is looked at, in Node's form. */
export interface FencedRequest {
  readonly method?: string | undefined;
  readonly headers: { readonly [name: string]: string | readonly string[] | undefined };
  /** Names and values in turn, as they came. */
  readonly rawHeaders?: readonly string[] | undefined;
}

export type Opened<Handle> =
  | { readonly as: 'safe' }
  | { readonly as: 'refused'; readonly problem: Problem }
  | { readonly as: 'fenced'; readonly fencing: Fencing<Handle> };

/** Decides, before the handler, whether it may run; the same for every framework. */
export function fencingGate<Request, Handle>(options: FencingOptions<Request, Handle>) {
  const { guard } = Object(options) as FencingOptions<Request, Handle>;
  if (typeof guard !== 'function') checkGuard(guard);
  const safeMethods = checkMethods(options.safeMethods);
  const requireClaim =
    options.requireClaim === undefined
      ? {}
      : { requireClaim: checkFlag('requireClaim', options.requireClaim, false) };

  return async (request: Request, http: FencedRequest): Promise<Opened<Handle>> => {
    if (safeMethods.has(http.method ?? '')) return { as: 'safe' };
    const token = readToken(http);
    if ('problem' in token) return { as: 'refused', problem: token.problem };
    const chosen = typeof guard === 'function' ? checkGuard(await guard(request)) : guard;
    const problem = await precheck(chosen, token.token, requireClaim);
    if (problem !== undefined) return { as: 'refused', problem };
    return { as: 'fenced', fencing: new RequestFencing(chosen, token.token) };
  };
}

/**
 * An empty run, not a claim: it takes its turn beside the other requests of this holder, where a claim would wait
 * for all of them; and it leaves a token that had to claim refused.
 */
async function precheck<Handle>(
  guard: Guard<Handle>,
  token: FencingToken,
  options: RunOptions,
): Promise<Problem | undefined> {
  try {
    await guard.run(token, () => undefined, options);
    return undefined;
  } catch (error) {
    if (!(error instanceof GuardError) || error.code === 'invalid-option') throw error;
    // Whatever became of the check, the handler has not run.
    return problemOf(error, error.code === 'unknown' ? 'unavailable' : error.code);
  }
}

/** @returns the token, or why there is none. A header that was sent twice is refused wherever it was joined. */
export function readToken(
  request: FencedRequest,
): { readonly token: FencingToken } | { readonly problem: Problem } {
  const raw = request.rawHeaders ?? [];
  const copies = raw.filter(
    (_, index) => raw[index - 1]?.toLowerCase() === 'fencing-token' && index % 2 === 1,
  );
  try {
    const seen = parseFencingHeader(request.headers['fencing-token']);
    if (seen !== undefined) {
      if (copies.length > 1) parseFencingHeader(copies);
      return { token: seen };
    }
  } catch (error) {
    if (error instanceof GuardError) return { problem: problemOf(error) };
    throw error;
  }
  const missing = new GuardError('invalid-token', 'the request carries no Fencing-Token header');
  return { problem: problemOf(missing, 'missing-token') };
}

const fencings = new WeakMap<object, Fencing>();

/** @internal */
export function bindFencing(request: object, fencing: Fencing): void {
  fencings.set(request, fencing);
}

/**
 * The answer to an error that came out of a request's handler; `undefined` where that is for the application:
 * only what the request's own guarded calls were refused with is answered here.
 * @internal
 */
export function problemFor(request: object, error: unknown): Problem | undefined {
  const fencing = fencings.get(request);
  if (!(fencing instanceof RequestFencing) || !(error instanceof GuardError)) return undefined;
  return fencing.answer(error);
}

/**
 * The fencing of a request that the middleware let pass.
 * @throws GuardError `invalid-option` where it did not: the middleware was not asked, or the method is a safe
 * one. So a route that lost its middleware writes nothing.
 */
export function fencingOf<Handle = unknown>(request: object): Fencing<Handle> {
  const fencing = fencings.get(request);
  if (fencing !== undefined) return fencing as Fencing<Handle>;
  throw invalid('request', request, 'no fencing middleware let it pass');
}

class RequestFencing<Handle> implements Fencing<Handle> {
  readonly token: FencingToken;
  readonly resource: string;
  readonly #guard: Guard<Handle>;
  readonly #refusals = new WeakSet<GuardError>();
  /** Calls of which one cannot say that nothing of them was applied: done, under way, or unknown. */
  #perhapsApplied = 0;

  constructor(guard: Guard<Handle>, token: FencingToken) {
    this.#guard = guard;
    this.token = token;
    this.resource = guard.resource;
  }

  async run<T>(
    effect: (handle: Handle) => T | Promise<T>,
    { signal }: Pick<RunOptions, 'signal'> = {},
  ): Promise<T> {
    checkEffect(effect);
    let thrown: { readonly error: unknown } | undefined;
    const observed = async (handle: Handle) => {
      try {
        return await effect(handle);
      } catch (error) {
        thrown = { error };
        throw error;
      }
    };
    // The token was let in before the handler ran. A guard that does not know it any more has lost its state.
    const options = { signal, requireClaim: true };
    return this.#count(
      () => this.#guard.run(this.token, observed, options),
      (error) => thrown === undefined || thrown.error !== error,
    );
  }

  async call<T>(guarded: () => Promise<T>): Promise<T> {
    if (typeof guarded !== 'function') throw invalid('guarded', guarded, 'expected a function');
    return this.#count(guarded, () => true);
  }

  answer(error: GuardError): Problem | undefined {
    if (!this.#refusals.has(error)) return undefined;
    if (error.outcome === 'unknown' || this.#perhapsApplied === 0) return problemOf(error);
    return problemOf(
      error,
      'unknown',
      `part of the request was or may have been applied; then: ${error.code}`,
    );
  }

  async #count<T>(guarded: () => Promise<T>, isGuards: (error: unknown) => boolean): Promise<T> {
    this.#perhapsApplied += 1;
    try {
      return await guarded();
    } catch (error) {
      if (error instanceof GuardError && isGuards(error)) {
        if (error.outcome !== 'unknown') this.#perhapsApplied -= 1;
        // A call that makes no sense is a fault of the handler, not of the request.
        if (error.code !== 'invalid-option') this.#refusals.add(error);
      }
      throw error;
    }
  }
}

/** A guard from anywhere, known by its methods. */
export function checkGuard<G extends Guard>(guard: G): G {
  const given = Object(guard) as Record<string, unknown>;
  for (const verb of ['claim', 'run', 'seal']) {
    if (typeof given[verb] !== 'function')
      throw invalid('guard', guard, `expected a guard, it lacks ${verb}()`);
  }
  return guard;
}

function checkMethods(methods: unknown): ReadonlySet<string> {
  if (methods === undefined) return new Set(['GET', 'HEAD', 'OPTIONS']);
  if (!Array.isArray(methods)) throw invalid('safeMethods', methods, 'expected a list of methods');
  for (const method of methods) {
    if (typeof method !== 'string' || !/^[A-Z]+$/.test(method)) {
      throw invalid('safeMethods', methods, `${describe(method)} is no method in capital letters`);
    }
  }
  return new Set(methods);
}
