import { GuardError } from './errors.ts';
import { FencingToken } from './fencing-token.ts';

/** The request header that carries a token to a guarded service. */
export const FENCING_TOKEN_HEADER = 'Fencing-Token';

/** The header's value: the token's text form. */
export function formatFencingHeader(token: FencingToken): string {
  return token.toString();
}

/**
 * Reads the header's value as Node gives it. A header that was sent twice is refused, not guessed at:
 * Node joins repeats with a comma or hands over an array.
 * @returns `undefined` where the header is missing.
 * @throws {@link GuardError} `invalid-token` where it is doubled or malformed.
 */
export function parseFencingHeader(value: string | readonly string[] | undefined): FencingToken | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'string') {
    const [only, ...more] = value;
    if (only === undefined || more.length > 0) throw doubled(value.join(', '));
    return FencingToken.parse(only.trim());
  }
  if (value.includes(',')) throw doubled(value);
  return FencingToken.parse(value.trim());
}

function doubled(value: string): GuardError {
  return new GuardError(
    'invalid-token',
    `${FENCING_TOKEN_HEADER}: sent more than once (${JSON.stringify(value.slice(0, 200))})`,
  );
}
