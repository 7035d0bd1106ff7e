// Whether a Redis takes connections at an address, and its version: a few of its commands, without a driver.
import type { Socket } from 'node:net';
import { probeAddress, readServerUrl } from './probe-socket.ts';

export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
}

/** @throws TestkitError `invalid-option` */
export function readRedisUrl(variable: string, text: string): RedisAddress {
  const url = readServerUrl(variable, text, ['redis:'], 'redis://user:password@host:port/database');
  return {
    host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1',
    port: Number(url.port || 6379),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
  };
}

/**
 * Resolves with the version of the Redis that answers, `undefined` where it tells none, if only because it wants
 * another password.
 * @throws TestkitError `no-server`
 */
export async function probeRedis(variable: string, address: RedisAddress): Promise<string | undefined> {
  return probeAddress('Redis', variable, address, async (socket) => {
    const { user, password } = address;
    if (password !== '') socket.write(command('AUTH', ...(user === '' ? [] : [user]), password));
    socket.write(command('INFO', 'server') + command('PING'));
    return readAnswer(socket);
  });
}

const command = (...words: string[]) =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`;

async function readAnswer(socket: Socket): Promise<string | undefined> {
  let text = '';
  for await (const chunk of socket) {
    text += String(chunk);
    if (!/^[+\-$]/.test(text)) throw new Error('what answers speaks another protocol');
    if (/^-(LOADING|MASTERDOWN)/m.test(text)) throw new Error(text.split('\r\n')[0]);
    // The last of the answers: whatever came before it is there.
    if (/^(\+PONG|-(NOAUTH|NOPERM|WRONGPASS))[^\n]*\r\n$/m.test(text)) {
      return /^redis_version:(\S+)/m.exec(text)?.[1];
    }
  }
  throw new Error('what answers speaks another protocol, or closed the connection');
}
