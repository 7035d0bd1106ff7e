import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';

/**
 * One guardian process stands beside each process that uses the testkit: a server, a worker or a folder
 * that was given to it does not outlive this process, however this one ends, SIGKILL included.
 *
 * It learns of the end by the end of a pipe, so no signal handler is installed here.
 */
let guardian: ChildProcess | undefined;

/** What is guarded now, by its key: a guardian that takes another one's place is told all of it. */
const guarded = new Map<string, object>();

/** How the guardian ends a process that is left: PostgreSQL tidies its shared memory on SIGQUIT. */
export type EndSignal = 'SIGKILL' | 'SIGQUIT' | 'SIGTERM';

/** Call it in the same turn as the spawn, so that no end of this process can come between. */
export function guardProcess(pid: number, endSignal: EndSignal): void {
  guard(`process ${pid}`, { guard: { pid, endSignal } });
}

export function forgetProcess(pid: number): void {
  forget(`process ${pid}`, { forget: pid });
}

/** The folder is removed after the processes have ended. */
export function guardFolder(folder: string): void {
  guard(`folder ${folder}`, { guardFolder: folder });
}

export function forgetFolder(folder: string): void {
  forget(`folder ${folder}`, { forgetFolder: folder });
}

/** Something that an engine made for us, and where that engine is. */
export interface EngineObject {
  readonly socketPath?: string;
  readonly host?: string;
  readonly port?: number;
  readonly kind: 'containers' | 'networks';
  readonly id: string;
}

/** It is removed, containers first, after the processes have ended. */
export function guardInEngine(object: EngineObject): void {
  guard(`engine ${object.id}`, { guardInEngine: object });
}

export function forgetInEngine(id: string): void {
  forget(`engine ${id}`, { forgetInEngine: id });
}

function guard(key: string, order: object): void {
  guarded.set(key, order);
  if (guardian === undefined) guardian = startGuardian();
  else tell(guardian, order);
}

function forget(key: string, order: object): void {
  guarded.delete(key);
  if (guardian !== undefined) tell(guardian, order);
}

function tell(child: ChildProcess, order: object): void {
  child.stdin?.write(`${JSON.stringify(order)}\n`);
}

/** With all that is guarded now. */
function startGuardian(): ChildProcess {
  // A session of its own keeps Ctrl-C away; an empty environment keeps out loaders meant for the runner.
  const child = spawn(process.execPath, [fileURLToPath(new URL('./guardian-process.mjs', import.meta.url))], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    env: {},
  });
  const onLoss = (why: string) => {
    if (guardian !== child) return;
    guardian = undefined;
    process.emitWarning(`${why}: servers and workers may outlive this process`, 'LockkeeperTestkitWarning');
  };
  child.once('error', (error) => onLoss(`the guardian could not be started (${error.message})`));
  child.once('exit', (code, signal) => {
    // Killed from outside, as where memory is short.
    if (guardian === child && signal !== null) guardian = startGuardian();
    else onLoss(`the guardian ended (${signal ?? code})`);
  });
  // One that ended does not read either; how it ended says what to do.
  child.stdin?.on('error', (error) => {
    if (child.exitCode === null && child.signalCode === null && !isBroken(error)) {
      onLoss(`the guardian does not read (${error.message})`);
    }
  });
  for (const order of guarded.values()) tell(child, order);
  child.unref();
  (child.stdin as Socket | null)?.unref();
  return child;
}

/** Its end of the pipe is closed, so that its end will be told. */
function isBroken(error: NodeJS.ErrnoException): boolean {
  return error.code === 'EPIPE' || error.code === 'ECONNRESET';
}
