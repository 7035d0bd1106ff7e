import type { ChildProcess } from 'node:child_process';
import { forgetProcess } from './guardian.ts';
import { killTree, pauseTree, processState, resumeTree, signal, untilStopped } from './process-table.ts';
import type { ProcessExit } from './server-process.ts';
import type { WorkerHost, WorkerListener } from './worker-host.ts';
import type { DownEnvelope, UpEnvelope } from './worker-message.ts';

/** A worker that is a child of this process, paused by SIGSTOP. */
export class WorkerProcess implements WorkerHost {
  readonly pid: number;
  readonly #child: ChildProcess;

  constructor(child: ChildProcess, pid: number) {
    this.#child = child;
    this.pid = pid;
    child.once('exit', () => forgetProcess(pid));
  }

  listen(listener: WorkerListener): Promise<ProcessExit> {
    const child = this.#child;
    child.stdout?.setEncoding('utf8').on('data', (text: string) => listener.onStdout(text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => listener.onStderr(text));
    child.on('message', (envelope: UpEnvelope) => listener.onEnvelope(envelope));
    return new Promise((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal }));
    });
  }

  send(envelope: DownEnvelope): void {
    this.#child.send(envelope, (error) => {
      // A worker that ends with a message on its way shows in `exited` and in every `next`.
      if (error !== null && this.#child.connected) throw error;
    });
  }

  get isPaused(): boolean {
    return processState(this.pid) === 'stopped';
  }

  untilFrozen(): Promise<void> {
    // No SIGSTOP of ours: it could come before the worker's own, which would then stop it once more.
    return untilStopped(this.pid);
  }

  pause(): Promise<void> {
    return pauseTree(this.pid);
  }

  resume(): void {
    resumeTree(this.pid);
  }

  kill(name: NodeJS.Signals): void {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    // The whole tree, since tsx has a helper process that could be stopped and hold our pipes open.
    if (name === 'SIGKILL') killTree(this.pid);
    else {
      signal(this.pid, name);
      resumeTree(this.pid);
    }
  }
}
