// Redis, MariaDB and PgBouncer, and the tools for a slow disk and a shifted clock: installed ones if they are new
// enough, else the packages of the suite that this machine runs, unpacked into the cache with the libraries that they
// need.

import { existsSync } from 'node:fs';
import { cp, mkdir, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { distribution, gistOf, ownSuite, withSuite } from './apt.mjs';
import { keep, kept, withScratchDir } from './cache.mjs';
import { CommandError } from './child.mjs';
import { onPath, versionOf } from './programs.mjs';
import { say, step } from './say.mjs';
import { atLeast, compareVersions } from './versions.mjs';

/**
 * @typedef {object} Kind
 * @property {string} title
 * @property {string} lowest  the lowest version Lockkeeper is tested on
 * @property {string} program  where a distribution's package has it
 * @property {readonly string[]} packages
 * @property {readonly string[]} also  what else of the packages is worth keeping
 * @property {string} [preloaded]  a folder of libraries that it loads by their names
 * @property {string} [without]  what is skipped without it; such a one is no reason to fail
 * @property {string} size  of the download
 * @property {string} install  how to come by it otherwise
 * @property {{ variable: string, example: string }} [address]
 */

/** @typedef {'redis' | 'mariadb' | 'pgbouncer' | 'strace' | 'faketime'} Name */

/** @type {Record<Name, Kind>} */
export const PACKAGED = {
  redis: {
    title: 'Redis',
    lowest: '6.0',
    program: 'usr/bin/redis-server',
    packages: ['redis-server', 'redis-tools'],
    also: ['usr/bin/redis-cli'],
    size: '5 MB',
    install: 'Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis',
    address: { variable: 'REDIS_URL', example: 'redis://127.0.0.1:6379' },
  },
  mariadb: {
    title: 'MariaDB',
    lowest: '10.6',
    program: 'usr/sbin/mariadbd',
    packages: ['mariadb-server-core'],
    also: ['mysql', 'mariadb'].flatMap((name) => [
      ...['charsets', 'english'].map((part) => `usr/share/${name}/${part}`),
      ...['system_tables', 'performance_tables', 'system_tables_data'].map(
        (part) => `usr/share/${name}/${name}_${part}.sql`,
      ),
    ]),
    size: '10 MB',
    install: 'Debian, Ubuntu: apt-get install mariadb-server; macOS: brew install mariadb',
    address: { variable: 'MYSQL_URL', example: 'mysql://me:secret@127.0.0.1:3306/test' },
  },
  pgbouncer: {
    title: 'PgBouncer',
    lowest: '1.16',
    program: 'usr/sbin/pgbouncer',
    packages: ['pgbouncer'],
    also: [],
    size: '4 MB',
    install: 'Debian, Ubuntu: apt-get install pgbouncer; macOS: brew install pgbouncer',
  },
  strace: {
    title: 'strace',
    lowest: '4.22',
    program: 'usr/bin/strace',
    packages: ['strace'],
    also: [],
    without: 'tests with a slow disk',
    size: '2 MB',
    install: 'Debian, Ubuntu: apt-get install strace',
  },
  faketime: {
    title: 'libfaketime',
    lowest: '0.9.8',
    program: 'usr/bin/faketime',
    packages: ['faketime', 'libfaketime'],
    also: [],
    preloaded: 'faketime',
    without: 'tests with a shifted clock',
    size: '1 MB',
    install: 'Debian, Ubuntu: apt-get install faketime',
  },
};

export const packagedNames = /** @type {readonly Name[]} */ (Object.keys(PACKAGED));

/** Where distributions keep daemons, off the PATH of ordinary users. */
const DAEMON_DIRS = ['/usr/local/sbin', '/usr/sbin'];

/**
 * @typedef {object} Packaged
 * @property {string} version
 * @property {'path' | 'unpacked'} route
 * @property {string} bin
 * @property {string} libDir
 */

/**
 * @param {Name} name
 * @returns {Promise<Omit<Packaged, 'libDir'>[]>}
 */
export async function packagedOnPath(name) {
  const { lowest, program } = PACKAGED[name];
  const bin = onPath(basename(program), DAEMON_DIRS);
  const version = bin && (await versionOf(bin));
  return bin && version && atLeast(version, lowest) ? [{ version, route: 'path', bin }] : [];
}

/**
 * @param {Name} name
 * @returns {Promise<Packaged[]>}
 */
export async function packagedUnpacked(name) {
  const found = await kept(name);
  return found
    .map(({ version, dir }) => ({
      version,
      route: /** @type {const} */ ('unpacked'),
      bin: join(dir, PACKAGED[name].program),
      libDir: join(dir, 'lib'),
    }))
    .sort((a, b) => compareVersions(b.version, a.version));
}

/**
 * Gets servers into the cache.
 *
 * @param {readonly Name[]} names
 * @returns {Promise<Map<Name, string>>} why some could not be had
 */
export async function fetchPackaged(names) {
  if (names.length === 0) return new Map();
  /** @param {string} reason */
  const all = (reason) => new Map(names.map((name) => [name, reason]));
  const [from, suite] = [distribution(), ownSuite()];
  if (!from || !suite) return all('packages can be unpacked only on Debian and Ubuntu');
  /** @type {Map<Name, string>} */
  let reasons = new Map();
  const missing = new Set(names);
  say(`looking for ${names.map((name) => PACKAGED[name].title).join(', ')} among the packages of ${suite} …`);
  try {
    await withScratchDir((scratch) =>
      withSuite(from, suite, scratch, async (apt) => {
        reasons = await fetchEach(apt, suite, missing, scratch);
        // Perhaps another mirror has the rest.
        if (missing.size > 0) throw new CommandError([...reasons.values()].join('\n'));
      }),
    );
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    if (reasons.size === 0) return all(`${suite}: ${gistOf(error.message)}`);
  }
  return reasons;
}

/**
 * @param {import('./apt.mjs').Suite} apt
 * @param {string} suite
 * @param {Set<Name>} missing  what is there in the end is taken out
 * @param {string} scratch
 * @returns {Promise<Map<Name, string>>} why those that are left in `missing` are
 */
async function fetchEach(apt, suite, missing, scratch) {
  /** @type {Map<Name, string>} */
  const reasons = new Map();
  for (const name of [...missing]) {
    const { title, size } = PACKAGED[name];
    try {
      await step(
        `unpacking ${title} of ${suite} into .cache/servers (about ${size}, nothing is installed)`,
        () => fetchOne(apt, name, join(scratch, name)),
      );
      missing.delete(name);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      reasons.set(name, `${suite}: ${gistOf(error.message)}`);
    }
  }
  return reasons;
}

/**
 * @param {import('./apt.mjs').Suite} apt
 * @param {Name} name
 * @param {string} scratch
 */
async function fetchOne(apt, name, scratch) {
  const { title, program, packages, also, lowest, preloaded } = PACKAGED[name];
  const [whole, ours] = [join(scratch, 'whole'), join(scratch, 'ours')];
  await apt.unpackWithLibraries(packages, whole);
  for (const part of [program, ...also]) {
    if (!existsSync(join(whole, part))) continue;
    await mkdir(dirname(join(ours, part)), { recursive: true });
    // Debian has one program under several names.
    await cp(join(whole, part), join(ours, part), { recursive: true, dereference: true });
  }
  const libDir = join(ours, 'lib');
  await copyLibraries(whole, libDir, preloaded);
  const version = await versionOf(join(ours, program), { libDir });
  if (!version) throw new CommandError(`the unpacked ${title} does not run on this machine`);
  if (!atLeast(version, lowest)) throw new CommandError(`it has ${title} ${version}, older than ${lowest}`);
  await keep(ours, `${name}-${version}`);
}

/**
 * The shared libraries of unpacked packages lie in one folder per architecture, with links beside them.
 *
 * @param {string} whole
 * @param {string} libDir
 * @param {string} [preloaded]
 */
export async function copyLibraries(whole, libDir, preloaded) {
  await mkdir(libDir, { recursive: true });
  for (const root of ['lib', 'usr/lib'].map((path) => join(whole, path)).filter(existsSync)) {
    for (const folder of await readdir(root, { withFileTypes: true })) {
      if (!folder.isDirectory() || !folder.name.includes('-linux-')) continue;
      for (const file of await readdir(join(root, folder.name))) {
        if (!/\.so(\.|$)/.test(file) && file !== preloaded) continue;
        await cp(join(root, folder.name, file), join(libDir, file), {
          recursive: true,
          verbatimSymlinks: true,
        });
      }
    }
  }
}
