// The inside of the namespaces that main.mjs makes: starts the daemon, loads the images, runs the command, and ends
// with its exit code. When it ends, and it ends when its stdin does, the kernel ends everything else in here.

import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { thaw } from './control-groups.mjs';

const READY_WITHIN_MS = 30_000;
/** Short, since the paths of sockets may not be long, and our own, since /run is mounted for us alone. */
const STATE = '/run/lockkeeper';
const SOCKET = `${STATE}/docker.sock`;
const CONFIG = `${STATE}/daemon.json`;

/**
 * @typedef {object} Plan
 * @property {import('./engine.mjs').Engine} engine
 * @property {string} folder
 * @property {string} name  of the run, and of its control groups
 * @property {readonly import('./images.mjs').Image[]} images
 * @property {readonly string[]} command
 */

const lines = createInterface({ input: process.stdin });
lines.once('close', () => process.exit(1));
lines.once('line', async (line) => {
  try {
    const plan = JSON.parse(line);
    const code = await main(plan);
    thaw(plan.name);
    process.exit(code);
  } catch (error) {
    process.stderr.write(`[containers] ${String(error)}\n`);
    process.exit(1);
  }
});

/** @param {Plan} plan */
async function main({ engine, folder, name, images, command }) {
  const paths = [process.env['PATH'], engine.bin].filter(Boolean).join(delimiter);
  await run('mount', ['-t', 'tmpfs', 'tmpfs', '/run']);
  await run(join(engine.bin, 'busybox'), ['ip', 'link', 'set', 'lo', 'up']);
  mkdirSync(STATE);
  await startDaemon(engine, folder, name);
  const docker = join(engine.bin, 'docker');
  await Promise.all(images.map((image) => load(docker, image)));
  const env = {
    ...process.env,
    PATH: paths,
    DOCKER_HOST: `unix://${SOCKET}`,
    TESTCONTAINERS_HOST_OVERRIDE: '127.0.0.1',
    // The namespaces end everything; its reaper would have to be pulled.
    TESTCONTAINERS_RYUK_DISABLED: 'true',
    ...Object.fromEntries(images.map(({ variable, tag }) => [variable, tag])),
  };
  const [program = '', ...args] = command;
  const child = spawn(program, args, { env, stdio: ['ignore', 'inherit', 'inherit'] });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}

/**
 * @param {import('./engine.mjs').Engine} engine
 * @param {string} folder
 * @param {string} name
 */
async function startDaemon(engine, folder, name) {
  // The machine's own settings, if it has any, are for another daemon.
  writeFileSync(CONFIG, '{}');
  const logFile = join(folder, 'daemon.log');
  const log = openSync(logFile, 'a');
  const flags = [
    ...['--host', `unix://${SOCKET}`, '--exec-root', `${STATE}/exec`, '--pidfile', `${STATE}/pid`],
    ...['--data-root', join(folder, 'data'), '--cgroup-parent', `/${name}`, '--config-file', CONFIG],
    // Ports are passed on by processes, and every network is made when it is needed.
    ...['--bridge=none', '--iptables=false', '--ip-masq=false', '--ip-forward=false'],
  ];
  const env = {
    PATH: [engine.bin, process.env['PATH']].filter(Boolean).join(delimiter),
    LD_LIBRARY_PATH: engine.lib,
    XTABLES_LIBDIR: engine.modules,
  };
  const daemon = spawn(join(engine.bin, 'dockerd'), flags, { env, stdio: ['ignore', log, log] });
  closeSync(log);
  /** @type {string | undefined} */
  let end;
  daemon.once('error', ({ message }) => {
    end = message;
  });
  daemon.once('exit', (code, signal) => {
    end = `it ended with ${code ?? signal}`;
  });
  const deadline = performance.now() + READY_WITHIN_MS;
  while (!(await answers())) {
    end ??= performance.now() > deadline ? `it did not answer within ${READY_WITHIN_MS} ms` : undefined;
    if (end) {
      const tail = readFileSync(logFile, 'utf8').trim().split('\n').slice(-15).join('\n');
      throw new Error(`the container engine did not start: ${end}; its log ends with:\n${tail}`);
    }
    await sleep(20);
  }
}

/** @returns {Promise<boolean>} */
function answers() {
  return new Promise((resolve) => {
    request({ socketPath: SOCKET, path: '/_ping' }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    })
      // Not listening yet.
      .once('error', () => resolve(false))
      .end();
  });
}

/** @param {string} docker @param {import('./images.mjs').Image} image */
async function load(docker, { tag, rootfs, changes }) {
  const flags = changes.flatMap((change) => ['--change', change]);
  const env = { PATH: process.env['PATH'], DOCKER_HOST: `unix://${SOCKET}` };
  const tar = spawn('tar', ['-C', rootfs, '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const packed = ended('tar', tar);
  const child = spawn(docker, ['import', ...flags, '-', tag], { env, stdio: [tar.stdout, 'ignore', 'pipe'] });
  // Only the reader may hold the pipe's end: it must see it break.
  tar.stdout.destroy();
  await Promise.all([packed, ended(`docker import ${tag}`, child)]);
  rmSync(rootfs, { recursive: true });
}

/** @param {string} program @param {readonly string[]} args */
const run = (program, args) => ended(program, spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] }));

/**
 * @param {string} what
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<void>}
 */
function ended(what, child) {
  let errors = '';
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`${what} ended with ${code ?? signal}: ${errors.trim()}`));
    });
  });
}
