// The host whose workers are processes of this machine.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { TestkitError } from '../errors.ts';
import { forgetProcess, guardProcess } from '../guardian.ts';
import { killTree, pauseTree, resumeTree, signal } from '../process-table.ts';
import type { ProcessExit } from '../server-process.ts';
import type { RunningWorker, WorkerHost, WorkerPlan } from './worker-host.ts';

/** Each worker is a process of the Node that runs us, with our environment. */
export const processHost: WorkerHost = {
  async launch(plan) {
    const child = spawn(process.execPath, [...plan.execArgv, plan.file, ...plan.args], {
      env: { ...process.env, ...plan.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      // In a group of its own: Ctrl-C is for the parent, which decides about its workers.
      detached: true,
    });
    if (child.pid === undefined) {
      const [cause] = (await once(child, 'error')) as [Error];
      throw new TestkitError('start-failed', `worker ${plan.name} did not start: ${cause.message}`, {
        cause,
      });
    }
    guardProcess(child.pid, 'SIGKILL');
    return new WorkerProcess(child, child.pid, plan);
  },
};

class WorkerProcess implements RunningWorker {
  readonly pid: number;
  readonly freezes = ['sigstop'] as const;
  readonly exited: Promise<ProcessExit>;
  readonly #child: ChildProcess;

  constructor(child: ChildProcess, pid: number, plan: WorkerPlan) {
    this.pid = pid;
    this.#child = child;
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (text: string) => plan.onOutput(name, text));
    }
    child.once('exit', () => forgetProcess(pid));
    this.exited = new Promise((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal }));
    });
  }

  freeze(): Promise<void> {
    return pauseTree(this.pid);
  }

  async thaw(): Promise<void> {
    resumeTree(this.pid);
  }

  async kill(name: NodeJS.Signals): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    // The whole tree: a helper of its own, stopped too, would hold our pipes open.
    if (name === 'SIGKILL') killTree(this.pid);
    else {
      signal(this.pid, name);
      resumeTree(this.pid);
    }
  }
}
