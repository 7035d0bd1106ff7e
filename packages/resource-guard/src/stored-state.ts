import { FencingToken, GuardError, type GuardState } from '@lockkeeper/fencing';
import { describe } from './options.ts';

/**
 * Reads a state as the SQL guards write it, `token 0`, or `token 1` where it is sealed. The revision never is a
 * JavaScript number.
 * @throws GuardError `unavailable` for anything else: what is stored says nothing about the token presented.
 */
export function parseStoredState(resource: string, text: unknown): GuardState {
  const [token, sealed, ...rest] = typeof text === 'string' ? text.split(' ') : [];
  try {
    if (token !== undefined && (sealed === '0' || sealed === '1') && rest.length === 0) {
      return { token: FencingToken.parse(token), sealed: sealed === '1' };
    }
  } catch {
    // Not a token, although its place and its form are those of one.
  }
  const what = `the stored state is ${describe(text)}; expected a token and 0 or 1; nothing was applied`;
  throw new GuardError('unavailable', `guard "${resource}": ${what}`, { resource });
}
