// Whether a PostgreSQL takes connections at an address: the first words of its protocol, without a driver.
import type { Socket } from 'node:net';
import { probeAddress, readServerUrl } from './probe-socket.ts';

export interface PostgresAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

const PROTOCOL_3_0 = 196_608;
/** Far above all that a server says before the first query. */
const LONGEST_MESSAGE = 65_536;

/** @throws TestkitError `invalid-option` */
export function readPostgresUrl(variable: string, text: string): PostgresAddress {
  const expected = 'postgres://user:password@host:port/database';
  const url = readServerUrl(variable, text, ['postgres:', 'postgresql:'], expected);
  const user = decodeURIComponent(url.username);
  return {
    // A folder where a Unix socket lies may be named in either place.
    host:
      url.searchParams.get('host') ??
      (decodeURIComponent(url.hostname.replace(/^\[|\]$/g, '')) || '127.0.0.1'),
    port: Number(url.port || 5432),
    user,
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)) || user,
  };
}

/**
 * Resolves when a PostgreSQL answers a request to begin a session, if only by asking for a password or for
 * TLS. What it resolves with is the server's version, where it tells that to somebody without a password.
 * @throws TestkitError `no-server`
 */
export async function probePostgres(variable: string, address: PostgresAddress): Promise<string | undefined> {
  return probeAddress('PostgreSQL', variable, address, async (socket) => {
    socket.write(startupMessage(address));
    return await readAnswer(socket);
  });
}

function startupMessage({ user, database }: PostgresAddress): Buffer {
  const settings = ['user', user || 'postgres', 'database', database || 'postgres', ''];
  const body = Buffer.from(settings.map((text) => `${text}\0`).join(''));
  const head = Buffer.alloc(8);
  head.writeInt32BE(head.length + body.length);
  head.writeInt32BE(PROTOCOL_3_0, 4);
  return Buffer.concat([head, body]);
}

async function readAnswer(socket: Socket): Promise<string | undefined> {
  let admitted = false;
  for await (const { type, body } of messages(socket)) {
    if (type === 'E') {
      const { C: state = '', M: message = 'refused' } = fieldsOf(body);
      // It refuses us, without a password or TLS, and not its own user.
      if (state.startsWith('28')) return undefined;
      throw new Error(message);
    }
    if (type === 'R' && body.readInt32BE() !== 0) return undefined;
    if (type === 'R') admitted = true;
    else if (admitted && type === 'Z') return undefined;
    else if (admitted && type === 'S') {
      const [name, value] = textsOf(body);
      if (name === 'server_version') return value?.split(' ')[0];
    } else if (!admitted && type !== 'N' && type !== 'v') break;
  }
  throw new Error('what answers speaks another protocol, or closed the connection');
}

async function* messages(socket: Socket): AsyncGenerator<{ readonly type: string; readonly body: Buffer }> {
  let bytes = Buffer.alloc(0);
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk as Buffer]);
    while (bytes.length >= 5) {
      const length = bytes.readInt32BE(1);
      if (length < 4 || length > LONGEST_MESSAGE) return;
      if (bytes.length < 1 + length) break;
      yield { type: String.fromCharCode(bytes[0] as number), body: bytes.subarray(5, 1 + length) };
      bytes = bytes.subarray(1 + length);
    }
  }
}

function fieldsOf(body: Buffer): Record<string, string> {
  return Object.fromEntries(textsOf(body).map((field) => [field.slice(0, 1), field.slice(1)]));
}

function textsOf(body: Buffer): string[] {
  return body.toString().split('\0');
}
