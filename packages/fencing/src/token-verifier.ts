import type { FencingToken } from './fencing-token.ts';
import type { GuardCallOptions } from './guard.ts';

/**
 * Tells whether a token was really granted. A guard compares tokens and cannot know that: whoever reaches it
 * with an invented token of a high revision would shut every holder out. A guard that serves others asks a
 * verifier before it advances.
 *
 * Resolves where the grant stands at this moment.
 *
 * @throws GuardError `unverified` where it does not; `unavailable` or `retry` where nobody could tell; or the
 * signal's reason.
 */
export type TokenVerifier = (token: FencingToken, options?: GuardCallOptions) => Promise<void>;
