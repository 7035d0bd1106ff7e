// Unpacked servers: a folder in the cache is complete, because it is made elsewhere and renamed into place.

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDir } from './workspace.mjs';

/** The folder that `LOCKKEEPER_SERVER_CACHE` names. */
export const serversDir = join(cacheDir, 'servers');
const workDir = join(cacheDir, 'unpacking');

/**
 * Lends a scratch folder on the file system of the cache and removes it afterwards.
 *
 * @template T
 * @param {(dir: string) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withScratchDir(work) {
  await mkdir(workDir, { recursive: true });
  const dir = await mkdtemp(join(workDir, 'part-'));
  try {
    return await work(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Removes what an interrupted set-up left. Only for who runs alone. */
export const removeLeftovers = () => rm(workDir, { recursive: true, force: true });

/**
 * Moves a finished folder into the cache; one that is there already wins.
 *
 * @param {string} from
 * @param {string} name
 */
export async function keep(from, name) {
  await mkdir(serversDir, { recursive: true });
  const place = join(serversDir, name);
  if (!existsSync(place)) await rename(from, place);
  return place;
}

/**
 * The kept folders called `<program>-<version>`.
 *
 * @param {string} program
 * @returns {Promise<{ version: string, dir: string }[]>}
 */
export async function kept(program) {
  if (!existsSync(serversDir)) return [];
  const found = [];
  for (const name of await readdir(serversDir)) {
    const version = name.startsWith(`${program}-`) ? name.slice(program.length + 1) : '';
    if (/^\d+(\.\d+)+$/.test(version)) found.push({ version, dir: join(serversDir, name) });
  }
  return found;
}
