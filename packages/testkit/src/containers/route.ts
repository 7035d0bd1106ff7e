// Whether a server runs in a container: by what LOCKKEEPER_SERVERS allows, what the caller asks for, and whether an
// engine answers.
import { TestkitError } from '../errors.ts';
import { allowedRoutes, forcedRoute } from '../find-server.ts';
import { type Engine, findEngine } from './engine.ts';
import type { ContainerNetwork } from './network.ts';

/** How a server runs in a container. Given, it insists on one. */
export interface ContainerOptions {
  /**
   * Default: what the variable `LOCKKEEPER_<KIND>_IMAGE` names, with ETCD, POSTGRES, REDIS or MARIADB for the kind;
   * else the public image of the version that this package is tested with.
   */
  readonly image?: string | undefined;
  /** Networks that it is on, so that other containers reach it by its name. Default: none of yours. */
  readonly networks?: readonly ContainerNetwork[] | undefined;
}

const PUBLIC_IMAGES = {
  etcd: { image: 'quay.io/coreos/etcd', tag: 'v3.5.30', prefix: 'v' },
  postgres: { image: 'postgres', tag: '18', prefix: '' },
  redis: { image: 'redis', tag: '7.2', prefix: '' },
  mariadb: { image: 'mariadb', tag: '10.11', prefix: '' },
  worker: { image: 'node', tag: '20', prefix: '' },
} as const;

export type ImageKind = keyof typeof PUBLIC_IMAGES;

/** The image that was asked for, or a public one; `version` is an exact one, `newest`, `oldest` or none. */
export function imageOf(kind: ImageKind, asked: string | undefined, version: string | undefined): string {
  const named = asked ?? process.env[`LOCKKEEPER_${kind.toUpperCase()}_IMAGE`];
  if (named) return named;
  const { image, tag, prefix } = PUBLIC_IMAGES[kind];
  const isExact = version !== undefined && version !== 'newest' && version !== 'oldest';
  return `${image}:${isExact ? `${prefix}${version}` : tag}`;
}

/**
 * The engine to start a server in; `undefined` where another route is to be taken.
 * @param unfit options of the caller that no container can meet, by their names
 * @throws TestkitError `invalid-option`, `no-server` where it can only be a container and cannot be one
 */
export async function containerRoute(
  container: ContainerOptions | undefined,
  unfit: Readonly<Record<string, unknown>>,
): Promise<Engine | undefined> {
  const mustBe = container !== undefined || forcedRoute() === 'container';
  if (!mustBe && !allowedRoutes().includes('container')) return undefined;
  const names = Object.entries(unfit).flatMap(([name, value]) => (value ? [name] : []));
  if (names.length > 0) {
    if (!mustBe) return undefined;
    throw new TestkitError('invalid-option', `a server in a container cannot have ${names.join(', ')}`);
  }
  if (mustBe) return requireEngine();
  const engine = await findEngine();
  return typeof engine === 'string' ? undefined : engine;
}

/** @throws TestkitError `no-server`, `invalid-option` where LOCKKEEPER_SERVERS excludes containers */
export async function requireEngine(): Promise<Engine> {
  if (!allowedRoutes().includes('container')) {
    const text = process.env['LOCKKEEPER_SERVERS'];
    throw new TestkitError('invalid-option', `LOCKKEEPER_SERVERS is "${text}", which excludes containers`);
  }
  const engine = await findEngine();
  if (typeof engine !== 'string') return engine;
  throw new TestkitError('no-server', `nothing can run in a container here: ${engine}`);
}
