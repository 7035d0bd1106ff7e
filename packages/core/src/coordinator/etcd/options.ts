import { type Clock, systemClock } from '../../clock.ts';
import { duration, invalidOption } from '../../validation.ts';
import { DEFAULT_CALL_TIMEOUT_MS } from '../coordinator.ts';
import { Certificates, type ConnectionSecurity, type EtcdCredentials, PLAIN_TEXT } from './credentials.ts';

/** Where etcd is and how to speak to it. */
export interface EtcdOptions {
  /**
   * One or more members: `http(s)://host:port`, `host:port` or `host`, also several in one string with
   * commas between. IPv6 addresses stand in brackets. The port defaults to 2379, the scheme to `http`, or
   * to `https` if `credentials` are given. One scheme for all.
   */
  readonly hosts: string | readonly string[] | undefined;
  /** For `https`. Without them the certificate authorities that Node brings along are trusted. */
  readonly credentials?: EtcdCredentials | undefined;
  /** A user of etcd. */
  readonly auth?: EtcdAuth | undefined;
  /** Default: the system's. */
  readonly clock?: Clock | undefined;
  /** The limit of calls that name none, in milliseconds. Default 5,000. */
  readonly callTimeoutMs?: number | undefined;
  /**
   * After how many silent milliseconds a connection in use is probed; it is given up 2 s later. etcd drops
   * clients that probe more often than every 5 s. At least 5,500, the default.
   */
  readonly keepaliveMs?: number | undefined;
}

/**
 * A user of etcd. A login gives a token, which is used until etcd no longer takes it (it forgets tokens that
 * are idle, at a restart, and when users change); then there is one new login, and the call is sent again.
 */
export interface EtcdAuth {
  readonly username: string;
  /**
   * For a password that is rotated, a function: it is called for every login. It has the time that the login
   * has (`callTimeoutMs`); if it rejects, the calls that need the login fail with `unauthenticated`.
   */
  readonly password: string | (() => string | Promise<string>);
}

/** The options with every default filled in and every value checked. */
export interface ResolvedEtcdOptions {
  readonly addresses: readonly Address[];
  readonly security: ConnectionSecurity;
  readonly auth: EtcdAuth | undefined;
  readonly clock: Clock;
  readonly callTimeoutMs: number;
  readonly keepaliveMs: number;
}

export interface Address {
  readonly scheme: 'http' | 'https';
  /** `host:port`. */
  readonly authority: string;
}

const DEFAULT_PORT = 2379;
const MIN_KEEPALIVE_MS = 5_500;
/** What a timer of grpc-js can hold. */
const MAX_KEEPALIVE_MS = 2 ** 31 - 1;
const HOST = /^(?:(https?):\/\/)?(\[[0-9a-f:.]+(?:%[\w.-]+)?\]|[\w.-]+)(?::(\d{1,5}))?\/?$/i;

export function resolveEtcdOptions(options: EtcdOptions): ResolvedEtcdOptions {
  const { credentials } = options;
  const addresses = parseHosts(options.hosts, credentials === undefined ? 'http' : 'https');
  const secure = addresses[0]?.scheme === 'https';
  if (!secure && credentials !== undefined) {
    throw invalidOption('credentials', 'given', 'expected none for hosts that begin with http://');
  }
  return {
    addresses,
    security: secure ? new Certificates(credentials ?? {}) : PLAIN_TEXT,
    auth: checkAuth(options.auth),
    clock: options.clock ?? systemClock,
    callTimeoutMs: duration('callTimeoutMs', options.callTimeoutMs ?? DEFAULT_CALL_TIMEOUT_MS, { min: 1 }),
    keepaliveMs: duration('keepaliveMs', options.keepaliveMs ?? MIN_KEEPALIVE_MS, {
      min: MIN_KEEPALIVE_MS,
      max: MAX_KEEPALIVE_MS,
    }),
  };
}

function parseHosts(hosts: unknown, defaultScheme: Address['scheme']): Address[] {
  const expected = 'expected host:port or http(s)://host:port, or a list of them';
  const list = typeof hosts === 'string' ? hosts.split(',') : hosts;
  if (!Array.isArray(list) || list.length === 0) throw invalidOption('hosts', hosts, expected);
  const addresses = list.map((host: unknown): Address => {
    const [whole, scheme, name, port = DEFAULT_PORT] =
      (typeof host === 'string' && HOST.exec(host.trim())) || [];
    if (whole === undefined || Number(port) < 1 || Number(port) > 65_535) {
      throw invalidOption('hosts', host, expected);
    }
    return {
      scheme: (scheme?.toLowerCase() ?? defaultScheme) === 'https' ? 'https' : 'http',
      authority: `${name}:${port}`,
    };
  });
  if (new Set(addresses.map(({ scheme }) => scheme)).size > 1) {
    throw invalidOption('hosts', list.join(','), 'expected one scheme, http or https, for all of them');
  }
  const seen = new Set<string>();
  return addresses.filter(({ authority }) => !seen.has(authority) && seen.add(authority));
}

function checkAuth(auth: EtcdOptions['auth']): EtcdOptions['auth'] {
  if (auth === undefined) return undefined;
  if (typeof auth !== 'object' || auth === null) throw invalidOption('auth', auth, 'expected an object');
  if (typeof auth.username !== 'string' || auth.username === '') {
    throw invalidOption('auth.username', auth.username, 'expected a name');
  }
  if (typeof auth.password !== 'string' && typeof auth.password !== 'function') {
    throw invalidOption('auth.password', typeof auth.password, 'expected a string, or a function for one');
  }
  return auth;
}
