// Child processes of a script: each leads a process group, gets every signal the script gets exactly once, and
// none is left when the script ends.

import { spawn } from 'node:child_process';

const SIGNALS = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
/** A terminal and npm both pass Ctrl-C on: what follows this soon is the same key press. */
const SAME_SIGNAL_MS = 1_000;
/** How long a child may take to end after a signal. */
const GRACE_MS = 10_000;

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
/** @type {{ signal: NodeJS.Signals, at: number } | undefined} */
let interruption;

/** Thrown by whatever was under way when a signal came, so that `finally` blocks clean up behind it. */
export class Interrupted extends Error {
  /** @override */
  name = 'Interrupted';
  /** @param {NodeJS.Signals} signal */
  constructor(signal) {
    super(`interrupted by ${signal}`);
    this.signal = signal;
  }
}

export class CommandError extends Error {
  /** @override */
  name = 'CommandError';
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {NodeJS.Signals} signal
 */
function signalGroup(child, signal) {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
  }
}

/** @param {NodeJS.Signals} signal */
function interrupt(signal) {
  const now = performance.now();
  if (interruption && now - interruption.at < SAME_SIGNAL_MS) return;
  interruption = { signal, at: now };
  for (const child of running) {
    child.kill(signal);
    setTimeout(() => running.has(child) && signalGroup(child, 'SIGKILL'), GRACE_MS).unref();
  }
}

/** From now on a signal goes to the children, and the script ends when they have. */
export function forwardSignals() {
  for (const signal of SIGNALS) process.on(signal, () => interrupt(signal));
}

/** @throws {Interrupted} when a signal has come */
export function throwIfInterrupted() {
  if (interruption) throw new Interrupted(interruption.signal);
}

/**
 * Ends this process the way a signal would have, so that shells and npm see it.
 *
 * @param {NodeJS.Signals} signal
 */
export function dieOf(signal) {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

/**
 * @typedef {object} Ended
 * @property {number | null} code
 * @property {NodeJS.Signals | null} signal
 */

/**
 * Starts a program and resolves when it has ended, however it ended.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {import('node:child_process').SpawnOptions & { onStart?: (child: import('node:child_process').ChildProcess) => void }} options
 * @returns {Promise<Ended>}
 */
export function run(command, args, { onStart, ...options }) {
  throwIfInterrupted();
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, detached: true });
    running.add(child);
    onStart?.(child);
    child.once('error', (error) => {
      running.delete(child);
      reject(error);
    });
    child.once('close', (code, signal) => {
      running.delete(child);
      resolve({ code, signal });
    });
  });
}

/**
 * Runs a program to its end and returns its stdout.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv }} [options]
 * @returns {Promise<string>}
 * @throws {CommandError} with the last lines of its output when it cannot be run or does not exit with 0
 */
export async function output(command, args, options = {}) {
  let stdout = '';
  let both = '';
  /** @type {Ended} */
  let ended;
  try {
    ended = await run(command, args, {
      ...options,
      stdio: ['ignore', 'pipe', 'pipe'],
      onStart(child) {
        child.stdout?.setEncoding('utf8').on('data', (text) => {
          stdout += text;
          both += text;
        });
        child.stderr?.setEncoding('utf8').on('data', (text) => {
          both += text;
        });
      },
    });
  } catch (cause) {
    if (cause instanceof Interrupted) throw cause;
    throw new CommandError(`${command} cannot be run: ${String(cause)}`, { cause });
  }
  throwIfInterrupted();
  if (ended.code === 0) return stdout;
  const tail = both.trim().split('\n').slice(-30).join('\n');
  throw new CommandError(`${command} ${args[0] ?? ''} ended with ${ended.code ?? ended.signal}:\n${tail}`);
}
