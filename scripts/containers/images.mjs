// Small images, made from the programs of this checkout and the libraries that this machine runs them with; nothing
// is pulled. Towards the testkit they behave as the public images of the same servers do.

import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { output } from '../setup/child.mjs';
import { etcdUnpacked, newestFirst } from '../setup/etcd.mjs';
import { packagedUnpacked } from '../setup/packaged.mjs';
import { postgresUnpacked } from '../setup/postgres.mjs';
import { SetUpError } from '../setup/say.mjs';
import { mariadbEntrypoint, postgresEntrypoint } from './entrypoints.mjs';

const LIB = '/usr/local/lib';
const ENTRYPOINT = 'ENTRYPOINT ["/entrypoint"]';
const SHELL = ['sh', 'cat', 'chown', 'mkdir', 'ls', 'sed', 'sleep', 'start-stop-daemon'];
const USERS = { root: 0, postgres: 999, mysql: 998 };

/**
 * @typedef {object} Image
 * @property {string} tag
 * @property {string} variable  tells the testkit to use it
 * @property {string} rootfs
 * @property {readonly string[]} changes  as in a Dockerfile
 */

/** Which images to make, with commas between. Default: all. */
const VARIABLE = 'LOCKKEEPER_IMAGES';

/** What each image has besides its base; resolves with what else a Dockerfile would say. */
const IMAGES = {
  etcd: addEtcd,
  postgres: addPostgres,
  redis: addRedis,
  mariadb: addMariadb,
  /** @param {string} rootfs */
  worker: async (rootfs) => {
    await addProgram(rootfs, process.execPath);
    return ['CMD ["node"]'];
  },
};

/**
 * Lays out the files of the images.
 *
 * @param {string} dir
 * @param {string} busybox
 * @returns {Promise<Image[]>}
 */
export async function layOutImages(dir, busybox) {
  const wanted = process.env[VARIABLE]?.split(',') ?? Object.keys(IMAGES);
  const unknown = wanted.filter((name) => !(name in IMAGES));
  if (unknown.length > 0)
    throw new SetUpError(`${VARIABLE} names ${unknown}; expected ${Object.keys(IMAGES)}`);
  const images = [];
  for (const [name, fill] of Object.entries(IMAGES)) {
    if (!wanted.includes(name)) continue;
    const rootfs = join(dir, name);
    await layOutBase(rootfs, busybox);
    const changes = [`ENV LD_LIBRARY_PATH=${LIB}`, ...(await fill(rootfs))];
    images.push({
      tag: `lockkeeper/${name}:local`,
      variable: `LOCKKEEPER_${name.toUpperCase()}_IMAGE`,
      rootfs,
      changes,
    });
  }
  return images;
}

/**
 * @template T
 * @param {string} what
 * @param {readonly T[]} found
 */
function first(what, [found]) {
  if (found !== undefined) return found;
  throw new SetUpError(
    `An image of ${what} needs one in .cache/servers, where no run of the set-up has put one.`,
  );
}

/** @param {string} rootfs */
async function addEtcd(rootfs) {
  const { bin, ctl } = first('etcd', newestFirst(await etcdUnpacked()));
  for (const program of [bin, ctl]) if (program !== undefined) await addProgram(rootfs, program);
  return ['CMD ["etcd"]'];
}

/** @param {string} rootfs */
async function addPostgres(rootfs) {
  const { binDir } = first('PostgreSQL', await postgresUnpacked());
  await cp(dirname(binDir), join(rootfs, 'usr/local/pgsql'), { recursive: true, verbatimSymlinks: true });
  await addLibraries(rootfs, join(binDir, 'postgres'));
  await addEntrypoint(rootfs, postgresEntrypoint);
  return ['ENV PATH=/usr/local/pgsql/bin:/bin', 'ENV PGDATA=/data', ENTRYPOINT, 'CMD ["postgres"]'];
}

/** @param {string} rootfs */
async function addRedis(rootfs) {
  const { bin, libDir } = first('Redis', await packagedUnpacked('redis'));
  await addProgram(rootfs, bin, libDir);
  return ['WORKDIR /data', 'CMD ["redis-server"]'];
}

/** @param {string} rootfs */
async function addMariadb(rootfs) {
  const { bin, libDir } = first('MariaDB', await packagedUnpacked('mariadb'));
  await addProgram(rootfs, bin, libDir);
  const share = join(dirname(dirname(bin)), 'share');
  const texts = ['mariadb', 'mysql']
    .map((name) => join(share, name))
    .filter((path) => existsSync(join(path, 'charsets')));
  await cp(first('MariaDB with its texts', texts), join(rootfs, 'usr/share/mariadb'), { recursive: true });
  await addEntrypoint(rootfs, mariadbEntrypoint);
  return [ENTRYPOINT, 'CMD ["mariadbd"]'];
}

/**
 * What every image has: a shell, users, and folders to write in.
 *
 * @param {string} rootfs
 * @param {string} busybox
 */
async function layOutBase(rootfs, busybox) {
  for (const folder of ['bin', 'etc', 'tmp', 'data', 'usr/local/bin', `.${LIB}`]) {
    await mkdir(join(rootfs, folder), { recursive: true });
  }
  await chmod(join(rootfs, 'tmp'), 0o1777);
  await cp(busybox, join(rootfs, 'bin/busybox'));
  for (const name of SHELL) await symlink('busybox', join(rootfs, 'bin', name));
  const users = Object.entries(USERS);
  await writeFile(
    join(rootfs, 'etc/passwd'),
    users.map(([name, id]) => `${name}:x:${id}:${id}::/:/bin/sh\n`).join(''),
  );
  await writeFile(join(rootfs, 'etc/group'), users.map(([name, id]) => `${name}:x:${id}:\n`).join(''));
}

/** @param {string} rootfs @param {string} program @param {string} [libDir] */
async function addProgram(rootfs, program, libDir) {
  await cp(program, join(rootfs, 'usr/local/bin', basename(program)), { dereference: true });
  await addLibraries(rootfs, program, libDir);
}

/**
 * Copies the libraries of a program, and the loader to where the program wants it.
 *
 * @param {string} rootfs
 * @param {string} program
 * @param {string} [libDir]
 */
async function addLibraries(rootfs, program, libDir) {
  const env = {
    ...process.env,
    LD_LIBRARY_PATH: [libDir, process.env['LD_LIBRARY_PATH']].filter(Boolean).join(':'),
  };
  const text = await output('ldd', [program], { env });
  for (const line of text.split('\n')) {
    const [, library, file] = /^\s*(\S+) => (\/\S.*) \(0x/.exec(line) ?? [];
    const loader = /^\s*(\/\S+) \(0x/.exec(line)?.[1];
    if (library && file) await cp(file, join(rootfs, LIB, library), { dereference: true });
    if (loader) {
      await mkdir(join(rootfs, dirname(loader)), { recursive: true });
      await cp(loader, join(rootfs, loader), { dereference: true });
    }
    if (/not found/.test(line)) throw new SetUpError(`${program} lacks a library: ${line.trim()}`);
  }
}

/** @param {string} rootfs @param {string} script */
async function addEntrypoint(rootfs, script) {
  await writeFile(join(rootfs, 'entrypoint'), script, { mode: 0o755 });
}
