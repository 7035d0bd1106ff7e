import { TestkitError } from './errors.ts';

export interface TcpTarget {
  readonly host: string;
  readonly port: number;
}

/** Where to connect, and the URL that told so. */
export function readTarget(target: TcpTarget | string | URL): {
  address: TcpTarget;
  template: URL | undefined;
} {
  if (typeof target === 'object' && 'host' in target && !(target instanceof URL)) {
    return { address: { host: target.host, port: target.port }, template: undefined };
  }
  const template = new URL(target);
  const port = Number(template.port || DEFAULT_PORTS[template.protocol]);
  if (!(port > 0)) throw new TestkitError('invalid-option', `target "${target}" names no port`);
  return { address: { host: template.hostname.replace(/^\[|\]$/g, ''), port }, template };
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = {
  'http:': '80',
  'https:': '443',
  'postgres:': '5432',
  'postgresql:': '5432',
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
