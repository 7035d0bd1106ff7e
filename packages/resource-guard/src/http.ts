/**
 * Fencing over HTTP: the token travels in the `Fencing-Token` header, the service checks it before its handler
 * runs and again where the handler writes, and a refusal comes back as the same `GuardError` that the guard gave.
 *
 * @module
 */
export {
  type ExpressNext,
  expressFencing,
  expressFencingErrors,
  type FastifyLikeReply,
  type FastifyLikeRequest,
  fastifyFencing,
  fastifyFencingErrors,
  withFencing,
} from './http/adapters.ts';
export { type FencingEndpointOptions, fencingEndpoint } from './http/endpoint.ts';
export { type FencedFetchOptions, type Fetch, fencedFetch } from './http/fenced-fetch.ts';
export { type FencedRequest, type Fencing, type FencingOptions, fencingOf } from './http/fencing.ts';
export { type HttpGuardOptions, httpGuard } from './http/http-guard.ts';
export { PROBLEM_CONTENT_TYPE, type Problem, type ProblemCode } from './http/problem.ts';
export { verifiedGuard } from './http/verified-guard.ts';
