// etcd: the versions in reach on PATH and in the cache, and how missing ones get into the cache.

import { existsSync } from 'node:fs';
import { cp, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { distribution, gistOf, withSuite } from './apt.mjs';
import { keep, kept, withScratchDir } from './cache.mjs';
import { CommandError } from './child.mjs';
import { onPath, versionOf } from './programs.mjs';
import { say, step } from './say.mjs';
import { atLeast, compareVersions } from './versions.mjs';

/** The lowest version Lockkeeper is tested on. */
export const LOWEST_ETCD = '3.4.23';
/** Below this a version is one of the old line, which the tests want besides the newest. */
const NEW_LINE = '3.5';

/**
 * @typedef {object} Etcd
 * @property {string} version
 * @property {'path' | 'unpacked'} route
 * @property {string} bin
 * @property {string} [ctl]
 * @property {string} [utl]
 */

/** @typedef {'oldest' | 'newest'} Line */

/** @param {string} version @returns {Line} */
export const lineOf = (version) => (atLeast(version, NEW_LINE) ? 'newest' : 'oldest');

/** @param {readonly Etcd[]} found */
export const newestFirst = (found) => found.toSorted((a, b) => compareVersions(b.version, a.version));

/**
 * @param {string} dir
 * @param {string} version
 * @param {'path' | 'unpacked'} route
 * @returns {Etcd}
 */
function etcdIn(dir, version, route) {
  const [ctl, utl] = [join(dir, 'etcdctl'), join(dir, 'etcdutl')];
  return {
    version,
    route,
    bin: join(dir, 'etcd'),
    ...(existsSync(ctl) && { ctl }),
    ...(existsSync(utl) && { utl }),
  };
}

/** @returns {Promise<Etcd[]>} */
export async function etcdOnPath() {
  const bin = onPath('etcd');
  const version = bin && (await versionOf(bin));
  if (!bin || !version) return [];
  if (atLeast(version, LOWEST_ETCD)) return [etcdIn(dirname(bin), version, 'path')];
  say(`etcd ${version} on PATH is older than ${LOWEST_ETCD} and is not used`);
  return [];
}

/** @returns {Promise<Etcd[]>} */
export async function etcdUnpacked() {
  const found = [];
  for (const { version, dir } of await kept('etcd'))
    found.push(etcdIn(join(dir, 'usr', 'bin'), version, 'unpacked'));
  return found;
}

/**
 * Gets an etcd of the wanted line into the cache from the distribution's packages.
 *
 * @param {Line} line
 * @returns {Promise<string | undefined>} why it could not be had; undefined when it is there
 */
export async function fetchEtcd(line) {
  const from = distribution();
  if (!from) return 'packages can be unpacked only on Debian and Ubuntu';
  const reasons = [];
  for (const suite of from[line]) {
    try {
      await step(`unpacking etcd of ${suite} into .cache/servers (about 20 MB, nothing is installed)`, () =>
        withScratchDir((scratch) => fetchFrom(from, suite, scratch)),
      );
      return undefined;
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      const reason = `${suite}: ${gistOf(error.message)}`;
      say(reason);
      reasons.push(reason);
    }
  }
  return reasons.join('\n');
}

/**
 * @param {import('./apt.mjs').Distribution} from
 * @param {string} suite
 * @param {string} scratch
 */
async function fetchFrom(from, suite, scratch) {
  const whole = join(scratch, 'whole');
  await withSuite(from, suite, scratch, (apt) => apt.unpack(['etcd-server', 'etcd-client'], whole));
  const version = await versionOf(join(whole, 'usr/bin/etcd'));
  if (!version) throw new CommandError(`the etcd of ${suite} does not run on this machine`);
  if (!atLeast(version, LOWEST_ETCD))
    throw new CommandError(`${suite} has etcd ${version}, older than ${LOWEST_ETCD}`);
  const programs = join(scratch, 'programs');
  await mkdir(join(programs, 'usr'), { recursive: true });
  await cp(join(whole, 'usr/bin'), join(programs, 'usr/bin'), { recursive: true });
  await keep(programs, `etcd-${version}`);
}
