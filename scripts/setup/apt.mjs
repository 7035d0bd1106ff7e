// Packages of any suite of the distribution this machine runs, downloaded and unpacked without installing: with
// or without root, from the mirror the machine's own apt is set up for, with every apt file in a folder of ours.

import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError, output } from './child.mjs';

/**
 * @typedef {object} Distribution
 * @property {string} component  where the distribution keeps etcd
 * @property {string} keyring
 * @property {readonly string[]} oldest  suites with the oldest etcd that will do, most wanted first
 * @property {readonly string[]} newest  suites with the newest etcd
 */

/** @type {Record<string, Distribution>} */
const DISTRIBUTIONS = {
  debian: {
    component: 'main',
    keyring: '/usr/share/keyrings/debian-archive-keyring.gpg',
    oldest: ['bookworm'],
    newest: ['unstable', 'trixie'],
  },
  ubuntu: {
    component: 'universe',
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

/**
 * Unpacks packages of a suite into `target`; the first mirror that has them wins.
 *
 * @param {Distribution} from
 * @param {string} suite
 * @param {readonly string[]} packages
 * @param {{ scratch: string, target: string }} dirs
 * @throws {CommandError} when no mirror has them
 */
export async function unpackPackages(from, suite, packages, dirs) {
  let lastError = new CommandError('apt is set up for no mirror of this distribution');
  for (const uri of await mirrors()) {
    const apt = join(dirs.scratch, 'apt');
    try {
      await download(uri, from, suite, packages, apt);
      for (const file of await readdir(join(apt, 'debs'))) {
        await output('dpkg-deb', ['-x', join(apt, 'debs', file), dirs.target]);
      }
      return;
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      lastError = error;
    } finally {
      await rm(apt, { recursive: true, force: true });
    }
  }
  throw lastError;
}

/**
 * @param {string} uri
 * @param {Distribution} from
 * @param {string} suite
 * @param {readonly string[]} packages
 * @param {string} dir  holds the lists, the cache and, in `debs`, the packages
 */
async function download(uri, from, suite, packages, dir) {
  for (const sub of ['lists/partial', 'cache/archives/partial', 'debs']) {
    await mkdir(join(dir, sub), { recursive: true });
  }
  const sources = join(dir, 'sources.list');
  await writeFile(sources, `deb [signed-by=${from.keyring}] ${uri} ${suite} ${from.component}\n`);
  const settings = {
    'Dir::Etc::SourceList': sources,
    'Dir::Etc::SourceParts': '/dev/null',
    'Dir::Etc::PreferencesParts': '/dev/null',
    'Dir::State': dir,
    'Dir::State::Lists': join(dir, 'lists'),
    'Dir::State::status': '/var/lib/dpkg/status',
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
  await output('apt-get', [...options, 'download', ...packages], { cwd: join(dir, 'debs') });
}
