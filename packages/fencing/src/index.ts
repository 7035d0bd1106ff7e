export { GuardError, type GuardErrorCode, type GuardErrorOptions, type GuardOutcome } from './errors.ts';
export { compareTokens, FencingToken, type FencingTokenParts, type TokenOrder } from './fencing-token.ts';
export {
  type Claimable,
  decideGuard,
  decideRebase,
  type Guard,
  type GuardAdmin,
  type GuardCallOptions,
  type GuardDecision,
  type GuardState,
  type GuardVerb,
  type RebaseOptions,
  type RunOptions,
  refusal,
} from './guard.ts';
export { FENCING_TOKEN_HEADER, formatFencingHeader, parseFencingHeader } from './http-header.ts';
export type { TokenVerifier } from './token-verifier.ts';
