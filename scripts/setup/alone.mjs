// One set-up at a time in a checkout: a second one waits for the first, and a dead one is not waited for.
//
// A folder holds numbered claims, and the highest one says who works: a process id, or nobody. Whoever finds it
// free, or its process dead, tries to make the next number, which the file system lets only one succeed in. Since
// no number is ever taken away from above, a claim made after a look that is out of date is not the highest, and
// is withdrawn.

import { randomUUID } from 'node:crypto';
import { link, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { throwIfInterrupted } from './child.mjs';
import { say } from './say.mjs';

const POLL_MS = 100;
const NOBODY = 'nobody';

/** @param {unknown} error */
const codeOf = (error) => /** @type {NodeJS.ErrnoException} */ (error).code;

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

/**
 * The numbers in the folder, the highest last.
 *
 * @param {string} dir
 */
async function claimsIn(dir) {
  const numbers = (await readdir(dir)).filter((name) => /^\d+$/.test(name)).map(Number);
  return numbers.sort((a, b) => a - b);
}

/**
 * The process that works under a claim; undefined when none does.
 *
 * @param {string} dir
 * @param {number} claim
 */
async function workerOf(dir, claim) {
  try {
    const pid = Number(await readFile(join(dir, String(claim)), 'utf8'));
    return Number.isInteger(pid) && isAlive(pid) ? pid : undefined;
  } catch (error) {
    // Made obsolete by a higher claim since the folder was read: the attempt to follow it will fail.
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Puts a file into place with its content, by `link`, which fails when the name is taken, or `rename`.
 *
 * @param {string} path
 * @param {string} content
 * @param {typeof link | typeof rename} place
 */
async function put(path, content, place) {
  const beside = `${path}.${randomUUID()}`;
  await writeFile(beside, content);
  try {
    await place(beside, path);
  } finally {
    await rm(beside, { force: true });
  }
}

/**
 * @param {string} dir
 * @param {number} claim
 * @returns {Promise<boolean>} whether this process now works under it
 */
async function tryClaim(dir, claim) {
  const path = join(dir, String(claim));
  try {
    await put(path, String(process.pid), link);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
  const claims = await claimsIn(dir);
  const isHighest = claims.at(-1) === claim;
  for (const past of isHighest ? claims.slice(0, -1) : [claim]) {
    await rm(join(dir, String(past)), { force: true });
  }
  return isHighest;
}

/**
 * @param {string} dir
 * @returns {Promise<number>} the claim that this process works under
 */
async function waitForTurn(dir) {
  let waitingFor;
  for (;;) {
    throwIfInterrupted();
    const highest = (await claimsIn(dir)).at(-1) ?? 0;
    const worker = await workerOf(dir, highest);
    if (worker === undefined) {
      if (await tryClaim(dir, highest + 1)) return highest + 1;
      continue;
    }
    if (waitingFor !== worker) say(`another set-up (process ${worker}) is under way, waiting for it …`);
    waitingFor = worker;
    await sleep(POLL_MS);
  }
}

/**
 * Runs `work` while no other process on this machine runs its own under the same folder.
 *
 * @template T
 * @param {string} dir
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function alone(dir, work) {
  await mkdir(dir, { recursive: true });
  const claim = await waitForTurn(dir);
  try {
    return await work();
  } finally {
    await put(join(dir, String(claim)), NOBODY, rename);
  }
}
