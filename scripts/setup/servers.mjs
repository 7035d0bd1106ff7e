// That the real servers a run needs are in reach, by one of these routes: an address in the environment, a
// program on PATH, programs unpacked into the cache. The testkit walks the same routes when it starts a server;
// what the cache holds it reads from the manifest written here.

import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { alone } from './alone.mjs';
import { removeLeftovers, serversDir } from './cache.mjs';
import { etcdOnPath, etcdUnpacked, fetchEtcd, LOWEST_ETCD, lineOf, newestFirst } from './etcd.mjs';
import { fetchPostgres, LOWEST_POSTGRES, postgresOnPath, postgresUnpacked } from './postgres.mjs';
import { SetUpError, say } from './say.mjs';
import { cacheDir } from './workspace.mjs';

const ROUTES = /** @type {const} */ (['env', 'path', 'unpacked']);
/** @typedef {typeof ROUTES[number]} Route */
/** @typedef {import('./etcd.mjs').Line} Line */

/**
 * @typedef {object} Servers
 * @property {string | undefined} etcdMissing  what to do about etcd when there is none
 * @property {string | undefined} postgresMissing
 */

/** The route that `LOCKKEEPER_SERVERS` forces, if any. */
function forcedRoute() {
  const asked = process.env['LOCKKEEPER_SERVERS'];
  if (asked === undefined || asked === '') return undefined;
  const route = ROUTES.find((known) => known === asked);
  if (route) return route;
  if (asked === 'container') {
    throw new SetUpError(
      'LOCKKEEPER_SERVERS=container: this route is not there yet. Use env, path or unpacked.',
    );
  }
  throw new SetUpError(`LOCKKEEPER_SERVERS=${asked} is no route. Use env, path or unpacked.`);
}

/**
 * Finds the servers a run needs and gets the missing ones. Never fails because one cannot be had: that is the
 * caller's to judge.
 *
 * @param {readonly Line[]} lines  the lines of etcd that are wanted; one is enough to run
 * @returns {Promise<Servers>}
 */
export async function setUpServers(lines) {
  const forced = forcedRoute();
  const etcdMissing = await findEtcd(forced, lines);
  const postgresMissing = await findPostgres(forced);
  await writeManifest();
  return { etcdMissing, postgresMissing };
}

/**
 * @param {Route | undefined} forced
 * @param {Route} route
 */
const mayUse = (forced, route) => forced === undefined || forced === route;

/** Removing leftovers and fetching belong together: both only while nobody else sets up here. @param {() => Promise<string | undefined>} work */
const fetchAlone = (work) =>
  alone(join(cacheDir, 'set-up'), async () => {
    await removeLeftovers();
    return work();
  });

/**
 * @param {Route | undefined} forced
 * @param {readonly Line[]} lines
 * @returns {Promise<string | undefined>} what to do when there is none
 */
async function findEtcd(forced, lines) {
  if (process.env['ETCD_ENDPOINTS'] && mayUse(forced, 'env')) {
    say('etcd: the one at ETCD_ENDPOINTS');
    return undefined;
  }
  const look = async () =>
    newestFirst([
      ...(mayUse(forced, 'path') ? await etcdOnPath() : []),
      ...(mayUse(forced, 'unpacked') ? await etcdUnpacked() : []),
    ]);
  let found = await look();
  /** @param {Line} line */
  const has = (line) => found.some((etcd) => lineOf(etcd.version) === line);
  const reasons = [];
  for (const line of lines) {
    if (has(line) || !mayUse(forced, 'unpacked')) continue;
    const reason = await fetchAlone(async () => {
      found = await look();
      return has(line) ? undefined : fetchEtcd(line);
    });
    found = await look();
    if (reason) reasons.push(reason);
  }
  if (found.length === 0) return etcdInstruction(forced, reasons);
  say(`etcd: ${found.map((etcd) => `${etcd.version} (${etcd.route})`).join(', ')}`);
  if (!lines.every(has)) say('etcd: no other version is in reach, this one has to do');
  return undefined;
}

/**
 * @param {Route | undefined} forced
 * @returns {Promise<string | undefined>} what to do when there is none
 */
async function findPostgres(forced) {
  if (process.env['POSTGRES_URL'] && mayUse(forced, 'env')) {
    say('PostgreSQL: the one at POSTGRES_URL');
    return undefined;
  }
  const look = async () => {
    const installed = mayUse(forced, 'path') ? await postgresOnPath() : [];
    return installed.length > 0 || !mayUse(forced, 'unpacked') ? installed : postgresUnpacked();
  };
  let found = await look();
  let reason;
  if (found.length === 0 && mayUse(forced, 'unpacked')) {
    reason = await fetchAlone(async () => ((await look()).length > 0 ? undefined : fetchPostgres()));
    found = await look();
  }
  const chosen = found[0];
  if (!chosen) return postgresInstruction(forced, reason);
  say(`PostgreSQL: ${chosen.version} (${chosen.route})`);
  return undefined;
}

/**
 * @param {Route | undefined} forced
 * @param {readonly string[]} reasons
 */
const etcdInstruction = (forced, reasons) =>
  [
    `There is no etcd in reach${forced ? ` by the route "${forced}"` : ''}. Do one of these:`,
    `- install etcd ${LOWEST_ETCD} or newer, so that etcd and etcdctl are on PATH`,
    '  (Debian, Ubuntu: apt-get install etcd-server etcd-client; macOS: brew install etcd;',
    "  elsewhere: the distribution's package, or the programs of an etcd release)",
    '- start one yourself and set ETCD_ENDPOINTS, for example to http://127.0.0.1:2379',
    ...(reasons.length > 0 ? ['What was tried:', ...reasons] : []),
  ].join('\n');

/**
 * @param {Route | undefined} forced
 * @param {string | undefined} reason
 */
const postgresInstruction = (forced, reason) =>
  [
    `There is no PostgreSQL in reach${forced ? ` by the route "${forced}"` : ''}. Do one of these:`,
    `- install PostgreSQL ${LOWEST_POSTGRES} or newer (Debian, Ubuntu: apt-get install postgresql;`,
    "  macOS: brew install postgresql@17; elsewhere: the distribution's package), with its programs on PATH",
    '- start one yourself and set POSTGRES_URL, for example to postgres://me@127.0.0.1:5432/postgres',
    ...(reason ? ['What was tried:', reason] : []),
  ].join('\n');

/** Lists what the cache holds for the testkit. Paths are relative to the list, because a checkout can be moved. */
async function writeManifest() {
  /** @param {string} path */
  const from = (path) => relative(serversDir, path);
  const manifest = {
    etcd: newestFirst(await etcdUnpacked()).map(({ version, bin, ctl, utl }) => ({
      version,
      bin: from(bin),
      ...(ctl && { ctl: from(ctl) }),
      ...(utl && { utl: from(utl) }),
    })),
    postgres: (await postgresUnpacked()).map(({ version, binDir }) => ({ version, binDir: from(binDir) })),
  };
  const path = join(serversDir, 'manifest.json');
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return;
  await mkdir(serversDir, { recursive: true });
  const beside = `${path}.${process.pid}`;
  await writeFile(beside, text);
  await rename(beside, path);
}
