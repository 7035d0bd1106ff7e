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
const SHELL = ['sh', 'cat', 'chown', 'mkdir', 'ls', 'sed', 'sleep', 'start-stop-daemon'];
const USERS = { root: 0, postgres: 999, mysql: 998 };

/**
 * @typedef {object} Image
 * @property {string} tag
 * @property {string} variable  tells the testkit to use it
 * @property {string} rootfs
 * @property {readonly string[]} changes  as in a Dockerfile
 */

/**
 * Lays out the files of every image.
 *
 * @param {string} dir
 * @param {string} busybox
 * @returns {Promise<Image[]>}
 */
export async function layOutImages(dir, busybox) {
  const etcd = newestFirst(await etcdUnpacked())[0];
  const postgres = (await postgresUnpacked())[0];
  const redis = (await packagedUnpacked('redis'))[0];
  const mariadb = (await packagedUnpacked('mariadb'))[0];
  if (!etcd?.ctl || !postgres || !redis || !mariadb) {
    throw new SetUpError('The images need etcd, PostgreSQL, Redis and MariaDB in .cache/servers.');
  }
  /** @param {string} name @param {(rootfs: string) => Promise<readonly string[]>} fill */
  const image = async (name, fill) => {
    const rootfs = join(dir, name);
    await layOutBase(rootfs, busybox);
    const changes = await fill(rootfs);
    const variable = `LOCKKEEPER_${name.toUpperCase()}_IMAGE`;
    return {
      tag: `lockkeeper/${name}:local`,
      variable,
      rootfs,
      changes: [`ENV LD_LIBRARY_PATH=${LIB}`, ...changes],
    };
  };
  return [
    await image('etcd', async (rootfs) => {
      await addProgram(rootfs, etcd.bin);
      await addProgram(rootfs, /** @type {string} */ (etcd.ctl));
      return ['CMD ["etcd"]'];
    }),
    await image('postgres', async (rootfs) => {
      await cp(dirname(postgres.binDir), join(rootfs, 'usr/local/pgsql'), {
        recursive: true,
        verbatimSymlinks: true,
      });
      await addLibraries(rootfs, join(postgres.binDir, 'postgres'));
      await addEntrypoint(rootfs, postgresEntrypoint);
      return [
        'ENV PATH=/usr/local/pgsql/bin:/bin',
        'ENV PGDATA=/data',
        'ENTRYPOINT ["/entrypoint"]',
        'CMD ["postgres"]',
      ];
    }),
    await image('redis', async (rootfs) => {
      await addProgram(rootfs, redis.bin, redis.libDir);
      return ['WORKDIR /data', 'CMD ["redis-server"]'];
    }),
    await image('mariadb', async (rootfs) => {
      await addProgram(rootfs, mariadb.bin, mariadb.libDir);
      const share = join(dirname(dirname(mariadb.bin)), 'share');
      const texts = ['mariadb', 'mysql']
        .map((name) => join(share, name))
        .find((path) => existsSync(join(path, 'charsets')));
      if (!texts) throw new SetUpError(`MariaDB is incomplete: no charsets below ${share}`);
      await cp(texts, join(rootfs, 'usr/share/mariadb'), { recursive: true });
      await addEntrypoint(rootfs, mariadbEntrypoint);
      return ['ENTRYPOINT ["/entrypoint"]', 'CMD ["mariadbd"]'];
    }),
    await image('worker', async (rootfs) => {
      await addProgram(rootfs, process.execPath);
      return ['CMD ["node"]'];
    }),
  ];
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
