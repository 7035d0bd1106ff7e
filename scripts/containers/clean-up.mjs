// Removes what a run of main.mjs leaves, whenever and however that ends: its stdin is a pipe that only main.mjs
// holds. On its way it is told the process whose child is the first one of the namespaces.

import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { removeGroups, thaw } from './control-groups.mjs';

const [folder = '', name = ''] = process.argv.slice(2);
const TRIES_FOR_MS = 20_000;

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE']))
  process.on(signal, () => {});

/** @type {number | undefined} */
let outer;
for await (const line of createInterface({ input: process.stdin })) outer = Number(line);

const deadline = performance.now() + TRIES_FOR_MS;
// The first process is reaped only after all others of its namespace.
const first = outer === undefined ? [] : childrenOf(outer);
// Its end is theirs: the kernel sees to that.
if (first.length > 0 && outer !== undefined) send(outer);
while (first.some(isThere) && performance.now() < deadline) {
  thaw(name);
  await sleep(10);
}
// Processes that nobody told us about may take a moment to vanish.
for (;;) {
  try {
    removeGroups(name);
    rmSync(folder, { recursive: true, force: true });
    break;
  } catch (error) {
    if (performance.now() > deadline) throw error;
    await sleep(50);
  }
}

/** @param {number} parent */
function childrenOf(parent) {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && statOf(pid)?.[1] === String(parent));
}

/** The fields of a process after its name: state, parent, … @param {number} pid */
function statOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ');
  } catch {
    return undefined;
  }
}

/** @param {number} pid */
function isThere(pid) {
  return ![undefined, 'Z', 'X'].includes(statOf(pid)?.[0]);
}

/** @param {number} pid */
function send(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
  }
}
