// A container engine from the distribution's packages, unpacked into the cache: the daemon, what it starts, and
// what those need. Nothing is installed.

import { existsSync } from 'node:fs';
import { cp, mkdir, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { alone } from '../setup/alone.mjs';
import { distribution, gistOf, ownSuite, withSuite } from '../setup/apt.mjs';
import { keep, kept, removeLeftovers, withScratchDir } from '../setup/cache.mjs';
import { CommandError } from '../setup/child.mjs';
import { copyLibraries } from '../setup/packaged.mjs';
import { versionOf } from '../setup/programs.mjs';
import { SetUpError, step } from '../setup/say.mjs';
import { cacheDir } from '../setup/workspace.mjs';

const PACKAGES = ['docker.io', 'containerd', 'runc', 'tini', 'busybox-static', 'iptables'];

const PROGRAMS = [
  ...['usr/bin/docker', 'usr/sbin/dockerd', 'usr/sbin/docker-proxy'],
  ...['usr/bin/containerd', 'usr/bin/containerd-shim-runc-v2', 'usr/sbin/runc'],
  ...['usr/bin/tini-static', 'bin/busybox', 'usr/sbin/xtables-nft-multi'],
];

/** Other names of the same programs. The daemon calls iptables inside each container, for its name server. */
const NAMES = { 'docker-init': 'tini-static', iptables: 'xtables-nft-multi', ip6tables: 'xtables-nft-multi' };

/**
 * @typedef {object} Engine
 * @property {string} version
 * @property {string} bin  holds all programs
 * @property {string} lib  their libraries
 * @property {string} modules  what iptables loads
 */

/** @returns {Promise<Engine | undefined>} */
async function engineUnpacked() {
  const [found] = await kept('engine');
  if (!found) return undefined;
  const { version, dir } = found;
  return { version, bin: join(dir, 'bin'), lib: join(dir, 'lib'), modules: join(dir, 'xtables') };
}

/**
 * The unpacked engine, fetched where it is not there yet.
 *
 * @returns {Promise<Engine>}
 * @throws {SetUpError} where this machine can have none
 */
export async function setUpEngine() {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    throw new SetUpError(
      'An engine of our own needs Linux and root: it mounts, and makes networks and namespaces.',
    );
  }
  return (
    (await engineUnpacked()) ??
    alone(join(cacheDir, 'set-up'), async () => {
      await removeLeftovers();
      return (await engineUnpacked()) ?? fetchEngine();
    })
  );
}

/** @returns {Promise<Engine>} */
async function fetchEngine() {
  const [from, suite] = [distribution(), ownSuite()];
  if (!from || !suite) throw new SetUpError('An engine can be unpacked only on Debian and Ubuntu.');
  try {
    await step(
      `unpacking a container engine of ${suite} into .cache/servers (about 70 MB, nothing is installed)`,
      () => withScratchDir((scratch) => unpackEngine(from, suite, scratch)),
    );
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new SetUpError(`The container engine of ${suite} could not be had: ${gistOf(error.message)}`);
  }
  const engine = await engineUnpacked();
  if (!engine) throw new SetUpError('The container engine was unpacked and is gone again.');
  return engine;
}

/**
 * @param {import('../setup/apt.mjs').Distribution} from
 * @param {string} suite
 * @param {string} scratch
 */
async function unpackEngine(from, suite, scratch) {
  const [whole, ours] = [join(scratch, 'whole'), join(scratch, 'ours')];
  await withSuite(from, suite, scratch, (apt) => apt.unpackWithLibraries(PACKAGES, whole));
  const [bin, lib] = [join(ours, 'bin'), join(ours, 'lib')];
  await mkdir(bin, { recursive: true });
  for (const program of PROGRAMS) {
    // Systems whose /bin and /sbin are links into /usr package it there.
    const file = [program, join('usr', program)].map((path) => join(whole, path)).find(existsSync);
    if (!file) throw new CommandError(`it has no ${program}`);
    await cp(file, join(bin, basename(program)));
  }
  for (const [name, program] of Object.entries(NAMES)) await symlink(program, join(bin, name));
  await copyLibraries(whole, lib);
  for (const folder of ['lib', 'usr/lib']) {
    const modules = join(
      whole,
      folder,
      `${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/xtables`,
    );
    if (existsSync(modules))
      await cp(modules, join(ours, 'xtables'), { recursive: true, verbatimSymlinks: true });
  }
  const version = await versionOf(join(bin, 'dockerd'), { libDir: lib });
  if (!version) throw new CommandError('the unpacked daemon does not run on this machine');
  await keep(ours, `engine-${version}`);
}
