// npm run with:containers -- <command>: runs a command beside a container engine that exists only for it.
//
// Engine and command live in namespaces of their own (processes, mounts, network), so they meet nobody else's
// containers, addresses or ports, and the kernel takes down whatever they started when their first process ends.
// What is left then is a folder and a control group, which clean-up.mjs removes however this process ends.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { say } from '../setup/say.mjs';
import { cacheDir } from '../setup/workspace.mjs';
import { setUpEngine } from './engine.mjs';
import { layOutImages } from './images.mjs';

const here = /** @param {string} name */ (name) => fileURLToPath(new URL(name, import.meta.url));
const command = process.argv.slice(2);

/** A name that no other run has, also that of its control groups. */
const name = `lockkeeper-${process.pid}-${randomBytes(4).toString('hex')}`;
const folder = join(cacheDir, 'containers', name);

const engine = await setUpEngine();
await mkdir(folder, { recursive: true });
const cleanUp = spawn(process.execPath, [here('clean-up.mjs'), folder, name], {
  // In a session of its own: what ends this process must not end it. Its stdin ends with this process.
  detached: true,
  stdio: ['pipe', 'ignore', 'inherit'],
});
/** @type {Promise<number>} */
const cleaned = new Promise((resolve) => cleanUp.once('close', (code) => resolve(code ?? 1)));
cleanUp.stdin.on('error', () => say('the clean-up ended early: containers may be left'));

/** @type {NodeJS.Signals | undefined} */
let signal;
for (const each of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(each, () => {
    signal ??= each;
    cleanUp.stdin.end();
  });
}

let code = 1;
try {
  const images = await layOutImages(join(folder, 'images'), join(engine.bin, 'busybox'));
  if (signal === undefined) code = await runInside({ engine, folder, name, images, command });
} catch (error) {
  say(
    error instanceof Error
      ? error.name === 'SetUpError'
        ? error.message
        : String(error.stack)
      : String(error),
  );
} finally {
  cleanUp.stdin.end();
  const failed = (await cleaned) !== 0;
  if (failed) code ||= 1;
}
if (signal === undefined) process.exitCode = code;
else {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

/**
 * Runs the engine and the command in new namespaces, whose first process ends with this one.
 *
 * @param {object} plan  for inside.mjs
 * @returns {Promise<number>} the command's exit code
 */
function runInside(plan) {
  const namespaces = ['--net', '--mount', '--pid', '--ipc', '--fork', '--kill-child', '--mount-proc'];
  const first = [join(engine.bin, 'tini-static'), '-s', '--', process.execPath, here('inside.mjs')];
  const child = spawn('unshare', [...namespaces, '--', ...first], {
    stdio: ['pipe', 'inherit', 'inherit'],
    detached: true,
  });
  if (child.pid !== undefined) cleanUp.stdin.write(`${child.pid}\n`);
  child.stdin.on('error', () => undefined); // Its end says more.
  // The rest of stdin's life tells the inside that this process lives.
  child.stdin.write(`${JSON.stringify(plan)}\n`);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (exitCode) => resolve(exitCode ?? 1));
  });
}
