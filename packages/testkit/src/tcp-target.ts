import { invalid } from './options.ts';

export interface TcpTarget {
  readonly host: string;
  readonly port: number;
}

/**
 * Where to connect, and the URL that told so.
 * @throws TestkitError `invalid-option`
 */
export function readTarget(
  target: TcpTarget | string | URL,
  name = 'target',
): {
  address: TcpTarget;
  template: URL | undefined;
} {
  if (typeof target === 'object' && target !== null && 'host' in target && !(target instanceof URL)) {
    return { address: { host: target.host, port: target.port }, template: undefined };
  }
  const template = urlFrom(name, target);
  const port = Number(template.port || DEFAULT_PORTS[template.protocol]);
  if (!(port > 0)) throw invalid(name, String(target), 'a port in it');
  return { address: { host: template.hostname.replace(/^\[|\]$/g, ''), port }, template };
}

/** `127.0.0.1:2379` is a URL too, of a scheme that nobody means. */
function urlFrom(name: string, target: string | URL): URL {
  const text = String(target);
  try {
    return new URL(text.includes('://') ? text : `tcp://${text}`);
  } catch {
    throw invalid(name, text, 'a URL, host:port or { host, port }');
  }
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = {
  'http:': '80',
  'https:': '443',
  'postgres:': '5432',
  'postgresql:': '5432',
  'mysql:': '3306',
  'redis:': '6379',
};

/** The URL with the proxy's address in it. */
export function urlOf(template: URL | undefined, port: number): string {
  if (template === undefined) return `tcp://127.0.0.1:${port}`;
  const url = new URL(template);
  url.hostname = '127.0.0.1';
  url.port = `${port}`;
  const text = url.toString();
  // An http URL gets a slash that the target's text may not have had, and others are compared as text.
  return url.pathname === '/' && url.search === '' && url.hash === '' ? text.replace(/\/$/, '') : text;
}
