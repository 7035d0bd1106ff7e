import { existsSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import { isFit, onPath, readManifest, routed, type ServerKind, versionOf } from './find-server.ts';

/** A server that is one program, in one version, ready to run. */
export interface ServerProgram {
  readonly route: 'path' | 'unpacked';
  readonly version: string;
  readonly bin: string;
  /** Holds libraries that this machine need not have. */
  readonly libDir: string | undefined;
}

/** Where distributions keep daemons, off the PATH of ordinary users. */
const DAEMON_FOLDERS = ['/usr/local/sbin', '/usr/sbin'];

const PROGRAMS = {
  Redis: { key: 'redis', program: 'redis-server', version: /v=(\d+(?:\.\d+)+)/ },
  MariaDB: { key: 'mariadb', program: 'mariadbd', version: /Ver (\d+(?:\.\d+)+)-MariaDB/ },
  PgBouncer: { key: 'pgbouncer', program: 'pgbouncer', version: /PgBouncer (\d+(?:\.\d+)+)/ },
} as const satisfies Partial<Record<ServerKind, object>>;

/** Every one of a fit version in reach, in the order of the routes. */
export function findPrograms(what: keyof typeof PROGRAMS): ServerProgram[] {
  const found = [
    ...routed('path', what, () => installed(what)),
    ...routed('unpacked', what, () => unpacked(what)),
  ];
  return found.filter(({ version }) => isFit(what, version));
}

/** The environment for a program with libraries of its own. */
export function environmentOf({ libDir }: ServerProgram): NodeJS.ProcessEnv {
  if (libDir === undefined) return process.env;
  const paths = [libDir, process.env['LD_LIBRARY_PATH']].filter(Boolean).join(delimiter);
  return { ...process.env, LD_LIBRARY_PATH: paths };
}

function installed(what: keyof typeof PROGRAMS): ServerProgram[] {
  const { program, version: pattern } = PROGRAMS[what];
  const bin = onPath(program, DAEMON_FOLDERS);
  const version = bin && versionOf(bin, pattern);
  return bin && version ? [{ route: 'path', version, bin, libDir: undefined }] : [];
}

function unpacked(what: keyof typeof PROGRAMS): ServerProgram[] {
  const { folder, manifest } = readManifest();
  return (manifest[PROGRAMS[what].key] ?? [])
    .map(({ version, bin, libDir }) => ({
      route: 'unpacked' as const,
      version,
      bin: resolve(folder, bin),
      libDir: resolve(folder, libDir),
    }))
    .filter(({ bin }) => existsSync(bin));
}
