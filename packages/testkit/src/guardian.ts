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

/** How the guardian ends a process that is left: PostgreSQL tidies its shared memory on SIGQUIT. */
export type EndSignal = 'SIGKILL' | 'SIGQUIT' | 'SIGTERM';

/** Call it in the same turn as the spawn, so that no end of this process can come between. */
export function guardProcess(pid: number, endSignal: EndSignal): void {
  order({ guard: { pid, endSignal } });
}

export function forgetProcess(pid: number): void {
  order({ forget: pid });
}

/** The folder is removed after the processes have ended. */
export function guardFolder(folder: string): void {
  order({ guardFolder: folder });
}

export function forgetFolder(folder: string): void {
  order({ forgetFolder: folder });
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
  order({ guardInEngine: object });
}

export function forgetInEngine(id: string): void {
  order({ forgetInEngine: id });
}

function order(message: object): void {
  guardian ??= startGuardian();
  guardian.stdin?.write(`${JSON.stringify(message)}\n`);
}

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
  child.once('exit', (code, signal) => onLoss(`the guardian ended (${signal ?? code})`));
  child.stdin?.on('error', (error) => onLoss(`the guardian does not read (${error.message})`));
  child.unref();
  (child.stdin as Socket | null)?.unref();
  return child;
}
