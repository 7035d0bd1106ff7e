export { decideGuard, decideRebase, type GuardDecision, type GuardVerb, refusal } from './decide-guard.ts';
export { GuardError, type GuardErrorCode, type GuardErrorOptions, type GuardOutcome } from './errors.ts';
export { compareTokens, FencingToken, type FencingTokenParts, type TokenOrder } from './fencing-token.ts';
export type {
  Claimable,
  Guard,
  GuardAdmin,
  GuardCallOptions,
  GuardMark,
  GuardState,
  RebaseOptions,
  RunOptions,
} from './guard.ts';
export { FENCING_TOKEN_HEADER, formatFencingHeader, parseFencingHeader } from './http-header.ts';
export type { TokenVerifier } from './token-verifier.ts';
