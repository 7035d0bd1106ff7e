// Packages of any suite of the distribution this machine runs, downloaded and unpacked without installing: with
// or without root, from the mirror the machine's own apt is set up for, with every apt file in a folder of ours.

import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError, output } from './child.mjs';

/**
 * @typedef {object} Distribution
 * @property {readonly string[]} components  where the distribution keeps servers, and what they need
 * @property {string} keyring
 * @property {readonly string[]} oldest  suites with the oldest etcd that will do, most wanted first
 * @property {readonly string[]} newest  suites with the newest etcd
 */

/** @type {Record<string, Distribution>} */
const DISTRIBUTIONS = {
  debian: {
    components: ['main'],
    keyring: '/usr/share/keyrings/debian-archive-keyring.gpg',
    oldest: ['bookworm'],
    newest: ['unstable', 'trixie'],
  },
  ubuntu: {
    components: ['main', 'universe'],
    keyring: '/usr/share/keyrings/ubuntu-archive-keyring.gpg',
    oldest: ['noble'],
    newest: ['devel', 'plucky'],
  },
};

/** What /etc/os-release says under a key. @param {string} key */
function osRelease(key) {
  if (!existsSync('/etc/os-release')) return undefined;
  const line = readFileSync('/etc/os-release', 'utf8')
    .split('\n')
    .find((candidate) => candidate.startsWith(`${key}=`));
  return line?.slice(key.length + 1).replaceAll('"', '');
}

/** The distribution whose packages can be fetched here; undefined where there is none. */
export function distribution() {
  const known = DISTRIBUTIONS[osRelease('ID') ?? ''];
  return known && existsSync(known.keyring) && existsSync('/usr/bin/dpkg-deb') ? known : undefined;
}

/** The addresses of the distribution's own archive in this machine's apt configuration. */
async function mirrors() {
  const own = osRelease('VERSION_CODENAME');
  const lines = await output('apt-get', [
    'indextargets',
    '--no-release-info',
    '--format',
    '$(REPO_URI)|$(RELEASE)|$(COMPONENT)',
    'Created-By: Packages',
  ]);
  const found = new Set();
  for (const line of lines.split('\n')) {
    const [uri, suite, component] = line.split('|');
    const isArchive =
      component === 'main' &&
      (suite === own || /^(old|)stable$|^testing$|^unstable$|^sid$/.test(suite ?? ''));
    if (uri && isArchive) found.add(uri);
  }
  return /** @type {string[]} */ ([...found]);
}

/** The suite that this machine itself runs, such as `bookworm`. */
export const ownSuite = () => osRelease('VERSION_CODENAME');

/**
 * A suite whose lists have been read. What cannot be had is a CommandError.
 *
 * @typedef {object} Suite
 * @property {(packages: readonly string[], target: string) => Promise<void>} unpack
 * @property {(packages: readonly string[], target: string) => Promise<void>} unpackWithLibraries  together with
 *   the libraries that they need and that a machine with apt might not have
 */

/**
 * Lends a suite of the distribution to `work`; the first mirror that it succeeds with wins.
 *
 * @template T
 * @param {Distribution} from
 * @param {string} suite
 * @param {string} scratch
 * @param {(suite: Suite) => Promise<T>} work
 * @throws {CommandError} of the last mirror
 */
export async function withSuite(from, suite, scratch, work) {
  let lastError = new CommandError('apt is set up for no mirror of this distribution');
  for (const uri of await mirrors()) {
    const dir = join(scratch, 'apt');
    try {
      return await work(await readSuite(uri, from, suite, dir));
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      lastError = error;
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  }
  throw lastError;
}

/**
 * @param {string} uri
 * @param {Distribution} from
 * @param {string} suite
 * @param {string} dir  holds the lists, the cache and, in `debs`, the packages
 * @returns {Promise<Suite>}
 */
async function readSuite(uri, from, suite, dir) {
  const debs = join(dir, 'debs');
  for (const sub of ['lists/partial', 'cache/archives/partial']) {
    await mkdir(join(dir, sub), { recursive: true });
  }
  const sources = join(dir, 'sources.list');
  const components = from.components.join(' ');
  await writeFile(sources, `deb [signed-by=${from.keyring}] ${uri} ${suite} ${components}\n`);
  // As if nothing were installed, so that what a package needs does not depend on this machine.
  const status = join(dir, 'status');
  await writeFile(status, '');
  const settings = {
    'Dir::Etc::SourceList': sources,
    'Dir::Etc::SourceParts': '/dev/null',
    'Dir::Etc::PreferencesParts': '/dev/null',
    'Dir::State': dir,
    'Dir::State::Lists': join(dir, 'lists'),
    'Dir::State::status': status,
    'Dir::Cache': join(dir, 'cache'),
    'APT::Sandbox::User': '',
    'APT::Update::Error-Mode': 'any',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '2',
    'Acquire::http::Timeout': '20',
    'Acquire::https::Timeout': '20',
  };
  const options = Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`]);
  await output('apt-get', [...options, 'update']);

  /** @param {readonly string[]} packages */
  async function closureOf(packages) {
    const args = ['--simulate', '--no-install-recommends', 'install', ...packages];
    const text = await output('apt-get', [...options, '-o', 'Debug::NoLocking=1', ...args]);
    return new Set([...text.matchAll(/^Inst (\S+)/gm)].map((match) => match[1] ?? ''));
  }

  /** @type {Suite['unpack']} */
  async function unpack(packages, target) {
    await rm(debs, { recursive: true, force: true });
    for (const folder of [debs, target]) await mkdir(folder, { recursive: true });
    await output('apt-get', [...options, 'download', ...packages], { cwd: debs });
    for (const file of await readdir(debs)) await output('dpkg-deb', ['-x', join(debs, file), target]);
  }

  /** What a machine with apt has. @type {Set<string> | undefined} */
  let everywhere;

  /** @type {Suite['unpackWithLibraries']} */
  async function unpackWithLibraries(packages, target) {
    everywhere ??= await closureOf(['apt', 'dpkg']);
    const needed = [...(await closureOf(packages))].filter((name) => !everywhere?.has(name));
    // What a package needs for its scripts is of no use here.
    const libraries = needed.filter((name) => name.startsWith('lib') && !/perl|gdbm/.test(name));
    await unpack([...new Set([...packages, ...libraries])], target);
  }

  return { unpack, unpackWithLibraries };
}

/** The first line in which apt says what is wrong, or else the last line. @param {string} output */
export function gistOf(output) {
  const lines = output.trim().split('\n');
  return lines.find((line) => line.startsWith('E: ')) ?? lines.at(-1) ?? '';
}
