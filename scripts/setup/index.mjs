// Set-up of a checkout: everything a command needs and does not find yet. Quick and without network when nothing
// is missing.

import { join } from 'node:path';
import { alone } from './alone.mjs';
import { dependenciesAreInstalled, installDependencies } from './dependencies.mjs';
import { SetUpError } from './say.mjs';
import { setUpServers } from './servers.mjs';
import { atLeast } from './versions.mjs';
import { cacheDir, lowestNode } from './workspace.mjs';

/**
 * @typedef {object} Needs
 * @property {readonly import('./etcd.mjs').Line[]} [etcd]  servers are set up when given
 * @property {boolean} [guards]  with them, the servers that only guards are tested on. Default false
 * @property {boolean} [browser]  with them, a browser for tests of pages. Default false
 * @property {import('./servers.mjs').Route | undefined} [route]  Default: what LOCKKEEPER_SERVERS says
 */

function requirePlatform() {
  const node = process.versions.node;
  if (!atLeast(node, lowestNode())) {
    throw new SetUpError(`Node ${node} is too old: install Node ${lowestNode()} or newer.`);
  }
  if (process.platform === 'win32') {
    throw new SetUpError('The checkout needs Linux or macOS. On Windows, use it inside WSL.');
  }
}

async function setUpDependencies() {
  if (dependenciesAreInstalled()) return;
  await alone(join(cacheDir, 'set-up'), async () => {
    if (!dependenciesAreInstalled()) await installDependencies();
  });
}

/**
 * @param {Needs} needs
 * @returns {Promise<import('./servers.mjs').Servers | undefined>} undefined when no servers were asked for
 */
export async function setUp({ etcd, guards = false, browser = false, route }) {
  requirePlatform();
  await setUpDependencies();
  return etcd && setUpServers(etcd, { guards, browser, route });
}
