// Ends what its runner started, however the runner ends: it reads orders from a pipe whose other end dies
// with the runner, and acts on the end of the pipe alone. Plain JavaScript, so that it runs from sources
// and from dist alike. One order a line: guard | forget a process, a folder, or what a container engine made.
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { createInterface } from 'node:readline';

/** @typedef {{ pid: number, startedAt: string | undefined, endSignal: NodeJS.Signals }} Guarded */
/** @type {Map<number, Guarded>} */
const processes = new Map();
/** @type {Set<string>} */
const folders = new Set();
/** @typedef {{ socketPath?: string, host?: string, port?: number, kind: 'containers' | 'networks', id: string }} Made */
/** @type {Map<string, Made>} */
const inEngines = new Map();

// Signals meant for the runner's terminal or group must not end its guardian first.
for (const name of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE']))
  process.on(name, () => {});

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.guard !== undefined) {
    const { pid, endSignal } = order.guard;
    processes.set(pid, { pid, endSignal, startedAt: startTime(pid) });
  }
  if (order.forget !== undefined) processes.delete(order.forget);
  if (order.guardFolder !== undefined) folders.add(order.guardFolder);
  if (order.forgetFolder !== undefined) folders.delete(order.forgetFolder);
  if (order.guardInEngine !== undefined) inEngines.set(order.guardInEngine.id, order.guardInEngine);
  if (order.forgetInEngine !== undefined) inEngines.delete(order.forgetInEngine);
}

const trees = [...processes.values()]
  .filter(isSame)
  .map((guarded) => ({ ...guarded, tree: treeOf(guarded.pid) }));
// A stopped process acts on no signal but SIGKILL until it is continued.
for (const { pid, endSignal, tree } of trees) {
  for (const member of tree) send(member, endSignal === 'SIGKILL' ? 'SIGKILL' : 'SIGCONT');
  send(pid, endSignal);
}
const deadline = Date.now() + 5_000;
while (trees.some(({ tree }) => tree.some(isAlive)) && Date.now() < deadline) await pause(20);
for (const { tree } of trees) for (const member of tree) send(member, 'SIGKILL');
const lastDeadline = Date.now() + 5_000;
while (trees.some(({ tree }) => tree.some(isAlive)) && Date.now() < lastDeadline) await pause(20);
for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });

// A network goes only after those who are on it.
for (const kind of ['containers', 'networks']) {
  const made = [...inEngines.values()].filter((one) => one.kind === kind);
  await Promise.all(made.map(removeFromEngine));
}

/** @param {Made} made @returns {Promise<void>} */
function removeFromEngine({ kind, id, ...at }) {
  return new Promise((resolve) => {
    request({ ...at, method: 'DELETE', path: `/${kind}/${id}?force=1&v=1` }, (response) => {
      response.resume().once('close', resolve);
    })
      // The engine has ended, and all that it ran with it.
      .once('error', () => resolve())
      .end();
  });
}

/** @param {number} delayMs */
function pause(delayMs) {
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}

/** @param {number} pid @param {NodeJS.Signals} name */
function send(pid, name) {
  try {
    process.kill(pid, name);
  } catch (error) {
    // It ended by itself, which is what was wanted.
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
  }
}

/** @param {number} pid */
function isAlive(pid) {
  const stat = readStat(pid);
  if (stat !== undefined) return !'ZX'.includes(stat[0] ?? 'Z');
  if (process.platform === 'linux') return false;
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A pid may have been given to another process since. @param {Guarded} guarded */
function isSame({ pid, startedAt }) {
  return startedAt === startTime(pid) && (startedAt !== undefined || process.platform !== 'linux');
}

/** @param {number} pid */
function startTime(pid) {
  return readStat(pid)?.[19];
}

/** @param {number} root */
function treeOf(root) {
  const tree = [root];
  if (process.platform !== 'linux') return tree;
  const parents = readdirSync('/proc')
    .map(Number)
    .filter(Number.isInteger)
    .map((pid) => /** @type {const} */ ([pid, Number(readStat(pid)?.[1])]));
  for (const parent of tree) for (const [pid, of] of parents) if (of === parent) tree.push(pid);
  return tree;
}

/** The fields after the name: state, parent, …, start time as the twentieth. @param {number} pid */
function readStat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
