import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { TestkitError } from './errors.ts';

/** In the order in which they are tried. */
const ROUTES = ['env', 'container', 'path', 'unpacked'] as const;

/**
 * Where a server came from: an address in the environment, a container, a program on PATH, or one that the set-up
 * unpacked into its cache.
 */
export type ServerRoute = (typeof ROUTES)[number];

/** Programs of one version, ready to run. */
export interface EtcdPrograms {
  readonly route: 'path' | 'unpacked';
  readonly version: string;
  readonly etcd: string;
  readonly etcdctl: string | undefined;
  /** From 3.5 on. */
  readonly etcdutl: string | undefined;
}

/** Programs of one version, ready to run. */
export interface PostgresPrograms {
  readonly route: 'path' | 'unpacked';
  readonly version: string;
  readonly binDir: string;
  readonly libDir: string | undefined;
}

/** The oldest version that will do of each server, and how to come by one. */
const KINDS = {
  etcd: {
    address: 'ETCD_ENDPOINTS=http://127.0.0.1:2379',
    // Below it, etcd's own fixes for leases and watches are missing.
    oldest: '3.4.23',
    packages: 'etcd-server etcd-client',
  },
  PostgreSQL: {
    address: 'POSTGRES_URL=postgres://user:password@127.0.0.1:5432/database',
    oldest: '13',
    packages: 'postgresql',
  },
  Redis: { address: 'REDIS_URL=redis://127.0.0.1:6379', oldest: '6.0', packages: 'redis-server' },
  MariaDB: {
    address: 'MYSQL_URL=mysql://user:password@127.0.0.1:3306/database',
    oldest: '10.6',
    packages: 'mariadb-server',
  },
  PgBouncer: { address: undefined, oldest: '1.16', packages: 'pgbouncer' },
} as const;

export type ServerKind = keyof typeof KINDS;

interface Manifest {
  readonly etcd?: readonly { version: string; bin: string; ctl?: string; utl?: string }[];
  readonly postgres?: readonly { version: string; binDir: string; libDir?: string }[];
  readonly redis?: readonly UnpackedProgram[];
  readonly mariadb?: readonly UnpackedProgram[];
  readonly pgbouncer?: readonly UnpackedProgram[];
  readonly strace?: readonly UnpackedProgram[];
  readonly faketime?: readonly UnpackedProgram[];
}

/** A server that is one program and the libraries beside it. */
export interface UnpackedProgram {
  readonly version: string;
  readonly bin: string;
  readonly libDir: string;
}

/** The address that `LOCKKEEPER_SERVERS` lets us use, if the environment names one. */
export function addressFromEnvironment(
  variable: 'ETCD_ENDPOINTS' | 'POSTGRES_URL' | 'REDIS_URL' | 'MYSQL_URL',
): string | undefined {
  const address = process.env[variable]?.split(',')[0]?.trim();
  const forced = forcedRoute();
  if (forced === 'env' && !address) {
    throw new TestkitError('no-server', `LOCKKEEPER_SERVERS is "env", but ${variable} is not set`);
  }
  return address && allowedRoutes().includes('env') ? address : undefined;
}

/** Every etcd of a fit version in reach, in the order of the routes, newest first in each. */
export function findEtcds(): EtcdPrograms[] {
  return [...routed('path', 'etcd', etcdsOnPath), ...routed('unpacked', 'etcd', etcdsUnpacked)].filter(
    ({ version }) => isFit('etcd', version),
  );
}

/** An `etcdctl` of this machine, whatever route servers are to be found by. */
export function anyEtcdctl(): string | undefined {
  return [...etcdsOnPath(), ...etcdsUnpacked()].find(({ etcdctl }) => etcdctl !== undefined)?.etcdctl;
}

/** Every PostgreSQL of a fit version in reach, in the order of the routes, newest first in each. */
export function findPostgreses(): PostgresPrograms[] {
  return [
    ...routed('path', 'PostgreSQL', postgresesOnPath),
    ...routed('unpacked', 'PostgreSQL', postgresesUnpacked),
  ].filter(({ version }) => isFit('PostgreSQL', version));
}

/**
 * The first of the list, or the one that `version` asks for.
 * @throws {@link TestkitError} `no-server`, which says what to do.
 */
export function chooseVersion<T extends { readonly version: string }>(
  what: ServerKind,
  found: readonly T[],
  version: string | undefined,
): T {
  const sorted = found.toSorted((a, b) => compareVersions(b.version, a.version));
  const chosen =
    version === undefined
      ? found[0]
      : version === 'newest'
        ? sorted[0]
        : version === 'oldest'
          ? sorted.at(-1)
          : found.find((programs) => programs.version === version);
  if (chosen !== undefined) return chosen;
  throw new TestkitError('no-server', whatToDo(what, sorted, version));
}

export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number)) as [number[], number[]];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function whatToDo(
  what: ServerKind,
  found: readonly { readonly version: string }[],
  version: string | undefined,
): string {
  const { address, oldest, packages } = KINDS[what];
  if (found.length > 0) {
    return `no ${what} ${version} in reach; found: ${found.map((one) => one.version).join(', ')}`;
  }
  const forced = forcedRoute();
  const where = forced === undefined ? '' : ` by the route LOCKKEEPER_SERVERS=${forced}`;
  return (
    `no ${what} in reach${where}. Do one of these: ` +
    `${address === undefined ? '' : `set ${address}; `}put ${what} ${oldest} or newer on PATH (Debian, Ubuntu: apt install ${packages}); ` +
    `or run Lockkeeper's set-up and point LOCKKEEPER_SERVER_CACHE to the folder of its manifest.json`
  );
}

/**
 * The route that `LOCKKEEPER_SERVERS` forces, if it names a single one.
 * @throws {@link TestkitError} `invalid-option`
 */
export function forcedRoute(): ServerRoute | undefined {
  const allowed = allowedRoutes();
  return allowed.length === 1 ? allowed[0] : undefined;
}

/** The routes that `LOCKKEEPER_SERVERS` leaves: those it names, with commas between, or all. */
export function allowedRoutes(): readonly ServerRoute[] {
  const text = process.env['LOCKKEEPER_SERVERS'];
  if (text === undefined || text === '') return ROUTES;
  const names = text.split(',').map((name) => name.trim());
  const allowed = ROUTES.filter((route) => names.includes(route));
  if (allowed.length === new Set(names).size) return allowed;
  throw new TestkitError('invalid-option', `LOCKKEEPER_SERVERS is "${text}"; expected ${ROUTES.join(', ')}`);
}

export const isFit = (what: ServerKind, version: string): boolean =>
  compareVersions(version, KINDS[what].oldest) >= 0;

/** What is found by a route, if we may use it. What has no address and no image is bound to neither. */
export function routed<T>(route: ServerRoute, what: ServerKind, find: () => T[]): T[] {
  const forced = forcedRoute();
  const cannotBe = KINDS[what].address === undefined && (forced === 'env' || forced === 'container');
  return cannotBe || allowedRoutes().includes(route) ? find() : [];
}

function etcdsOnPath(): EtcdPrograms[] {
  const etcd = onPath('etcd');
  const version = etcd && versionOf(etcd, /etcd Version: (\d+\.\d+\.\d+)/);
  return etcd && version
    ? [{ route: 'path', version, etcd, etcdctl: onPath('etcdctl'), etcdutl: onPath('etcdutl') }]
    : [];
}

function etcdsUnpacked(): EtcdPrograms[] {
  const { folder, manifest } = readManifest();
  return (manifest.etcd ?? [])
    .map(({ version, bin, ctl, utl }) => ({
      route: 'unpacked' as const,
      version,
      etcd: resolve(folder, bin),
      etcdctl: ctl === undefined ? undefined : resolve(folder, ctl),
      etcdutl: utl === undefined ? undefined : resolve(folder, utl),
    }))
    .filter(({ etcd }) => existsSync(etcd));
}

/** Distributions keep the server programs of PostgreSQL off PATH, a folder a version. */
function postgresesOnPath(): PostgresPrograms[] {
  const onThePath = onPath('postgres');
  const packaged = '/usr/lib/postgresql';
  const folders = new Set([
    ...(onThePath === undefined ? [] : [dirname(realpathSync(onThePath))]),
    ...(existsSync(packaged) ? readdirSync(packaged) : [])
      .filter((name) => /^\d+$/.test(name))
      .sort((a, b) => Number(b) - Number(a))
      .map((name) => join(packaged, name, 'bin')),
  ]);
  return [...folders].flatMap((binDir) => {
    if (!['postgres', 'initdb'].every((program) => existsSync(join(binDir, program)))) return [];
    const version = versionOf(join(binDir, 'postgres'), /PostgreSQL\) (\d+(?:\.\d+)*)/);
    return version === undefined ? [] : [{ route: 'path' as const, version, binDir, libDir: undefined }];
  });
}

function postgresesUnpacked(): PostgresPrograms[] {
  const { folder, manifest } = readManifest();
  return (manifest.postgres ?? [])
    .map(({ version, binDir, libDir }) => ({
      route: 'unpacked' as const,
      version,
      binDir: resolve(folder, binDir),
      libDir: libDir === undefined ? undefined : resolve(folder, libDir),
    }))
    .filter(({ binDir }) => existsSync(join(binDir, 'postgres')));
}

/** `LOCKKEEPER_SERVER_CACHE`, or the nearest `.cache/servers` above the working folder. */
export function readManifest(): { folder: string; manifest: Manifest } {
  const named = process.env['LOCKKEEPER_SERVER_CACHE'];
  const folder = named ?? nearestCache(process.cwd());
  const file = folder && join(folder, 'manifest.json');
  if (!file || !existsSync(file)) return { folder: '', manifest: {} };
  try {
    return { folder, manifest: JSON.parse(readFileSync(file, 'utf8')) };
  } catch (cause) {
    const why = `${file}, the list of unpacked servers, cannot be read: ${(cause as Error).message}`;
    throw new TestkitError('no-server', why, { cause });
  }
}

function nearestCache(from: string): string | undefined {
  const folder = join(from, '.cache', 'servers');
  if (existsSync(join(folder, 'manifest.json'))) return folder;
  return dirname(from) === from ? undefined : nearestCache(dirname(from));
}

export function onPath(program: string, elsewhere: readonly string[] = []): string | undefined {
  return [...(process.env['PATH'] ?? '').split(delimiter), ...elsewhere]
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, program))
    .find((file) => existsSync(file));
}

/** A program that does not run, or says nothing we understand, is as good as none. */
export function versionOf(program: string, pattern: RegExp): string | undefined {
  try {
    const arch = { ETCD_UNSUPPORTED_ARCH: process.arch };
    const text = execFileSync(program, ['--version'], {
      encoding: 'utf8',
      env: { ...process.env, ...arch },
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 10_000,
    });
    return pattern.exec(text)?.[1];
  } catch {
    return undefined;
  }
}
