// Whether a MariaDB or MySQL takes connections at an address: it speaks first, and tells its version.
import type { Socket } from 'node:net';
import { TestkitError } from './errors.ts';
import { probeAddress, readServerUrl } from './probe-socket.ts';

export interface MariadbAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** Far above all that a server says before the first query. */
const LONGEST_GREETING = 4_096;
const REFUSAL = 255;

/** @throws TestkitError `invalid-option` */
export function readMariadbUrl(variable: string, text: string): MariadbAddress {
  const expected = 'mysql://user:password@host:port/database';
  const url = readServerUrl(variable, text, ['mysql:', 'mariadb:'], expected);
  const database = decodeURIComponent(url.pathname.slice(1));
  if (database === '') {
    throw new TestkitError('invalid-option', `${variable} names no database; expected ${expected}`);
  }
  return {
    host: decodeURIComponent(url.hostname.replace(/^\[|\]$/g, '')) || '127.0.0.1',
    port: Number(url.port || 3306),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database,
  };
}

/**
 * Resolves with the version of the server that answers.
 * @throws TestkitError `no-server`
 */
export async function probeMariadb(variable: string, address: MariadbAddress): Promise<string> {
  return probeAddress('MariaDB', variable, address, readGreeting);
}

/** A packet is its length in three bytes, its number in one, and its text: a greeting or a refusal. */
async function readGreeting(socket: Socket): Promise<string> {
  let bytes = Buffer.alloc(0);
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk as Buffer]);
    if (bytes.length < 5) continue;
    const length = bytes.readUIntLE(0, 3);
    if (bytes[3] !== 0 || length > LONGEST_GREETING) break;
    if (bytes.length < 4 + length) continue;
    const body = bytes.subarray(4, 4 + length);
    if (body[0] === REFUSAL) throw new Error(body.subarray(3).toString());
    if (body[0] !== 10) break;
    const [version = ''] = body.subarray(1).toString('latin1').split('\0');
    // MariaDB before 11 puts in front what keeps old replicas content.
    return version.replace(/^5\.5\.5-/, '').split('-')[0] as string;
  }
  throw new Error('what answers speaks another protocol, or closed the connection');
}
