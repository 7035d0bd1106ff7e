// The text form of a guard's state, as the storages write it.
import { FencingToken, GuardError, type GuardMark, type GuardState } from '@lockkeeper/fencing';
import { describe } from './options.ts';

/** `token 0`, or `token 1` where it is sealed; the last writer's mark follows in the same form, where there is one. */
export function formatStoredState({ writer, ...highest }: GuardState): string {
  return writer === undefined ? formatMark(highest) : `${formatMark(highest)} ${formatMark(writer)}`;
}

/**
 * Reads what {@link formatStoredState} gives. The revision never is a JavaScript number.
 * @throws GuardError `unavailable` for anything else: what is stored says nothing about the token presented.
 */
export function parseStoredState(resource: string, text: unknown): GuardState {
  const words = typeof text === 'string' ? text.split(' ') : [];
  try {
    const highest = parseMark(words[0], words[1]);
    if (highest !== undefined && words.length === 2) return highest;
    const writer = parseMark(words[2], words[3]);
    const fits = highest?.token.shared === true && writer?.token.shared === false && words.length === 4;
    if (fits) return { ...highest, writer };
  } catch {
    // Not a token, although its place and its form are those of one.
  }
  const what = `the stored state is ${describe(text)}; expected a token and 0 or 1, and a reader's may be followed by the last writer's; nothing was applied`;
  throw new GuardError('unavailable', `guard "${resource}": ${what}`, { resource });
}

function formatMark({ token, sealed }: GuardMark): string {
  return `${token} ${sealed ? 1 : 0}`;
}

function parseMark(token: string | undefined, sealed: string | undefined): GuardMark | undefined {
  if (token === undefined || (sealed !== '0' && sealed !== '1')) return undefined;
  return { token: FencingToken.parse(token), sealed: sealed === '1' };
}
