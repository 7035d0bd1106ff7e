import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { TestkitError } from './errors.ts';
import { type EndSignal, forgetProcess, guardProcess } from './guardian.ts';
import { killTree, pauseTree, resumeTree, signal, treeOf, untilGone } from './process-table.ts';

/** How a process ended: exactly one of the two is set. */
export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface ProcessPlan {
  /** For messages: `etcd 3.5.30`. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly uid?: number | undefined;
  readonly endSignal: EndSignal;
}

const KEPT_LOG_CHARACTERS = 16_000;

/**
 * One run of a server program, watched by the guardian from its first moment to its last. It does not keep
 * this process alive, except while its end is awaited.
 */
export class ServerProcess {
  readonly #plan: ProcessPlan;
  readonly #child: ChildProcess;
  readonly exited: Promise<ProcessExit>;
  #exit: ProcessExit | undefined;
  #log = '';
  #onLog: (() => void) | undefined;

  constructor(plan: ProcessPlan) {
    this.#plan = plan;
    const child = spawn(plan.command, plan.args, {
      cwd: plan.cwd,
      env: plan.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      ...(plan.uid === undefined ? {} : { uid: plan.uid, gid: plan.uid }),
    });
    if (child.pid !== undefined) guardProcess(child.pid, plan.endSignal);
    this.#child = child;
    this.exited = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#keep(`${error.message}\n`);
        if (child.pid === undefined) resolve(this.#end({ code: null, signal: null }));
      });
      child.once('exit', (code, signal) => resolve(this.#end({ code, signal })));
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => this.#keep(text));
    }
    this.#ref(false);
  }

  /** `undefined` once it has ended. */
  get pid(): number | undefined {
    return this.#exit === undefined ? this.#child.pid : undefined;
  }

  /** The last 16,000 characters of what it wrote. */
  get log(): string {
    return this.#log;
  }

  /**
   * Waits until `isReady` holds, asking again on each output and at least every 20 ms.
   * @throws {@link TestkitError} `start-failed` when it ends before, or takes longer.
   */
  async waitUntil(isReady: (log: string) => boolean | Promise<boolean>, timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    while (!(await isReady(this.#log))) {
      if (this.#exit !== undefined) throw this.#failure(`ended (${describeExit(this.#exit)})`);
      if (performance.now() > deadline) throw this.#failure(`was not ready within ${timeoutMs} ms`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 20);
        this.#onLog = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  async pause(): Promise<void> {
    await pauseTree(this.#runningPid());
  }

  resume(): void {
    resumeTree(this.#runningPid());
  }

  /** Ends it and everything it started. Idempotent. Resolves when it is gone. */
  async end(name: EndSignal): Promise<ProcessExit> {
    const { pid } = this;
    if (pid === undefined) return this.exited;
    this.#ref(true);
    const tree = name === 'SIGKILL' ? killTree(pid) : treeOf(pid);
    if (name !== 'SIGKILL') {
      resumeTree(pid);
      signal(pid, name);
    }
    const timer = setTimeout(() => killTree(pid), 5_000);
    const exit = await this.exited;
    clearTimeout(timer);
    // Its children may take a moment longer, and still use its data.
    await untilGone(tree);
    this.#ref(false);
    return exit;
  }

  #runningPid(): number {
    if (this.pid !== undefined) return this.pid;
    throw new TestkitError('not-running', `${this.#plan.name} is not running`);
  }

  #keep(text: string): void {
    this.#log = (this.#log + text).slice(-KEPT_LOG_CHARACTERS);
    this.#onLog?.();
  }

  #end(exit: ProcessExit): ProcessExit {
    this.#exit = exit;
    if (this.#child.pid !== undefined) forgetProcess(this.#child.pid);
    this.#onLog?.();
    return exit;
  }

  #failure(what: string): TestkitError {
    const log = this.#log.trim().slice(-2_000);
    return new TestkitError('start-failed', `${this.#plan.name} ${what}; its log ends with:\n${log}`);
  }

  #ref(keepAlive: boolean): void {
    const method = keepAlive ? 'ref' : 'unref';
    this.#child[method]();
    for (const stream of [this.#child.stdout, this.#child.stderr]) (stream as Socket | null)?.[method]();
  }
}

export function describeExit({ code, signal }: ProcessExit): string {
  if (signal !== null) return `signal ${signal}`;
  return code === null ? 'it never started' : `exit code ${code}`;
}
