// A few words with a server, without a driver: connect, speak, and be gone.
import { connect, type Socket } from 'node:net';
import { TestkitError } from './errors.ts';

const ANSWERS_WITHIN_MS = 3_000;

/**
 * Connects and lets `talk` speak; the connection ends with it. A host that is a folder holds PostgreSQL's socket.
 * @throws TestkitError `no-server` for whatever goes wrong, and for silence
 */
export async function probeAddress<T>(
  what: string,
  variable: string,
  { host, port }: { readonly host: string; readonly port: number },
  talk: (socket: Socket) => Promise<T>,
): Promise<T> {
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  const limit = AbortSignal.timeout(ANSWERS_WITHIN_MS);
  const giveUp = () => socket.destroy(new Error(`no answer within ${ANSWERS_WITHIN_MS} ms`));
  limit.addEventListener('abort', giveUp);
  try {
    return await talk(socket);
  } catch (cause) {
    // Where a name has several addresses, the error of them all has a code only.
    const { message, code } = cause as NodeJS.ErrnoException;
    const where = `${variable} names ${host}:${port}, but no ${what} takes connections there`;
    throw new TestkitError('no-server', `${where}: ${message || code}`, { cause });
  } finally {
    limit.removeEventListener('abort', giveUp);
    socket.destroy();
  }
}

/**
 * The address in a URL whose scheme is one of `schemes`.
 * @throws TestkitError `invalid-option`
 */
export function readServerUrl(variable: string, text: string, schemes: readonly string[], expected: string) {
  if (!URL.canParse(text)) {
    const shown = text.replace(/:[^:@]*@/, ':…@');
    throw new TestkitError('invalid-option', `${variable} is "${shown}"; expected ${expected}`);
  }
  const url = new URL(text);
  if (!schemes.includes(url.protocol)) {
    throw new TestkitError(
      'invalid-option',
      `${variable} has the scheme "${url.protocol}"; expected ${expected}`,
    );
  }
  return url;
}
