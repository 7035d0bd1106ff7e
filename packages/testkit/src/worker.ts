import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { basename, dirname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { TestkitError } from './errors.ts';
import { guardProcess } from './guardian.ts';
import { describeExit, type ProcessExit } from './server-process.ts';
import type { WorkerHost } from './worker-host.ts';
import type { DownEnvelope, UpEnvelope, WorkerMessage } from './worker-message.ts';
import { WorkerProcess } from './worker-process.ts';

export interface WorkerOptions {
  /** For messages and logs. Default: the file's name. */
  readonly name?: string | undefined;
  /** `process.argv.slice(2)` of the worker. */
  readonly args?: readonly string[] | undefined;
  /** Added to the environment; `undefined` takes a variable out. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Options of Node, such as `--expose-gc`. */
  readonly execArgv?: readonly string[] | undefined;
}

export interface NextOptions {
  /** Default 30,000. */
  readonly timeoutMs?: number | undefined;
}

/** A message with the moment when the worker sent it. */
export interface LoggedMessage {
  /** Wall time by the worker's clock, milliseconds since the epoch, with fractions. */
  readonly atMs: number;
  readonly message: WorkerMessage;
}

/** The type under which reached points appear among the messages, with their `name`. */
const POINT = 'point';
const KEPT_OUTPUT_CHARACTERS = 64_000;

/**
 * Starts a Node process on a TypeScript or JavaScript file. It can be paused, resumed and killed from
 * outside, and talks through `reportFromWorker()`. TypeScript runs through `tsx`, which must be installed.
 *
 * The worker ends with this process, in whatever way that ends, even while it is paused.
 * @throws {@link TestkitError} `start-failed`
 */
export async function startWorker(file: string | URL, options: WorkerOptions = {}): Promise<Worker> {
  const path = file instanceof URL || file.startsWith('file:') ? fileURLToPath(file) : file;
  const name = options.name ?? basename(path);
  const child = fork(path, options.args ?? [], {
    execArgv: [...loaderOf(path), ...(options.execArgv ?? [])],
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    serialization: 'advanced',
    // In a group of its own: Ctrl-C is for the parent, which decides about its workers.
    detached: true,
  });
  if (child.pid === undefined) {
    const [cause] = (await once(child, 'error')) as [Error];
    throw new TestkitError('start-failed', `worker ${name} did not start: ${cause.message}`, { cause });
  }
  guardProcess(child.pid, 'SIGKILL');
  return new Worker(name, new WorkerProcess(child, child.pid));
}

function loaderOf(path: string): string[] {
  if (!/\.[cm]?tsx?$/.test(path)) return [];
  const tsx = resolveTsx(path);
  // Run from sources, we want the worker to see the same sources.
  const conditions = import.meta.url.endsWith('.ts') ? ['--conditions=@lockkeeper/source'] : [];
  return [...conditions, '--import', pathToFileURL(tsx).href];
}

function resolveTsx(path: string): string {
  try {
    return createRequire(pathToFileURL(`${dirname(path)}/`)).resolve('tsx');
  } catch (cause) {
    throw new TestkitError(
      'start-failed',
      `worker ${path}: TypeScript needs tsx; npm install --save-dev tsx`,
      {
        cause,
      },
    );
  }
}

interface Waiter {
  readonly matches: (message: WorkerMessage) => boolean;
  readonly settle: (result: WorkerMessage | TestkitError) => void;
}

/** A process started by `startWorker`. */
export class Worker implements AsyncDisposable {
  readonly name: string;
  readonly pid: number;
  /** Resolves, never rejects, when the process has ended and its output is complete. */
  readonly exited: Promise<ProcessExit>;
  readonly #host: WorkerHost;
  readonly #messages: LoggedMessage[] = [];
  readonly #unread: WorkerMessage[] = [];
  readonly #waiters = new Set<Waiter>();
  readonly #listeners = new Set<(logged: LoggedMessage) => void>();
  #exit: ProcessExit | undefined;
  #stdout = '';
  #stderr = '';

  /** @internal */
  constructor(name: string, host: WorkerHost) {
    this.name = name;
    this.pid = host.pid;
    this.#host = host;
    const ended = host.listen({
      onEnvelope: (envelope) => this.#take(envelope),
      onStdout: (text) => {
        this.#stdout = (this.#stdout + text).slice(-KEPT_OUTPUT_CHARACTERS);
      },
      onStderr: (text) => {
        this.#stderr = (this.#stderr + text).slice(-KEPT_OUTPUT_CHARACTERS);
      },
    });
    this.exited = ended.then((exit) => this.#end(exit));
  }

  /** Everything it reported, in order, whether read by `next` or not. */
  get messages(): readonly LoggedMessage[] {
    return this.#messages;
  }

  /** The last 64,000 characters of its standard output. */
  get stdout(): string {
    return this.#stdout;
  }

  /** The last 64,000 characters of its standard error. */
  get stderr(): string {
    return this.#stderr;
  }

  /** Sends a command to the worker's `onCommand`. A paused worker finds it when it is resumed. */
  send(message: WorkerMessage): void {
    this.#send({ down: 'command', message });
  }

  /**
   * The first message not yet read whose type, or whatever else `filter` asks, matches; those before it
   * stay unread. Each message is read once.
   * @throws {@link TestkitError} `timeout`, or `not-running` with its stderr when it ends before.
   */
  async next<T extends WorkerMessage = WorkerMessage>(
    filter: T['type'] | ((message: WorkerMessage) => boolean),
    { timeoutMs = 30_000 }: NextOptions = {},
  ): Promise<T> {
    const matches =
      typeof filter === 'function' ? filter : (message: WorkerMessage) => message.type === filter;
    const index = this.#unread.findIndex(matches);
    if (index >= 0) return this.#unread.splice(index, 1)[0] as T;
    const what = typeof filter === 'function' ? 'the message waited for' : `"${filter}"`;
    const result = await this.#wait(matches, what, timeoutMs);
    if (result instanceof TestkitError) throw result;
    return result as T;
  }

  /**
   * Calls `listener` with everything it reports from now on, in order and before `next` hands it out, until
   * disposed. What it has reported so far is in `messages`. A listener must not throw: nobody would catch it.
   */
  onMessage(listener: (logged: LoggedMessage) => void): Disposable {
    // In a function of its own: the same listener may be given twice.
    const call = (logged: LoggedMessage) => listener(logged);
    this.#listeners.add(call);
    return { [Symbol.dispose]: () => void this.#listeners.delete(call) };
  }

  /** Resolves when the worker is at `pauseHere(name)`, or stopped at `freezeHere(name)`. */
  async reached(name: string, options?: NextOptions): Promise<void> {
    await this.next((message) => message.type === POINT && message['name'] === name, options);
  }

  /** Lets a worker go on that waits at `pauseHere(name)`. */
  proceed(name: string): void {
    this.#send({ down: 'proceed', name });
  }

  /** Resolves when the worker reached `freezeHere(name)` and the kernel reports it stopped. */
  async frozen(name: string, options?: NextOptions): Promise<void> {
    await this.reached(name, options);
    await this.#host.untilFrozen();
  }

  /** SIGSTOP. Resolves when the kernel reports every thread stopped: nothing of it runs any more. */
  async pause(): Promise<void> {
    this.#assertRunning('paused');
    await this.#host.pause();
  }

  /** SIGCONT. */
  resume(): void {
    this.#assertRunning('resumed');
    this.#host.resume();
  }

  /** Whether the kernel reports it stopped. */
  get isPaused(): boolean {
    return this.#exit === undefined && this.#host.isPaused;
  }

  /**
   * Ends it by a signal, default SIGKILL, and resolves when it is gone. A paused worker is resumed for any
   * other signal, since a stopped process acts on none. Idempotent.
   */
  async kill(name: NodeJS.Signals = 'SIGKILL'): Promise<ProcessExit> {
    if (this.#exit === undefined) this.#host.kill(name);
    return this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #wait(matches: Waiter['matches'], what: string, timeoutMs: number): Promise<WorkerMessage | TestkitError> {
    return new Promise((resolve) => {
      if (this.#exit !== undefined) return resolve(this.#ended(what, this.#exit));
      const settle = (result: WorkerMessage | TestkitError) => {
        clearTimeout(timer);
        this.#waiters.delete(waiter);
        resolve(result);
      };
      const waiter = { matches, settle };
      const timer = setTimeout(() => settle(this.#late(what, timeoutMs)), timeoutMs);
      this.#waiters.add(waiter);
      // The end settles every wait with its own message.
      void this.exited.then((exit) => settle(this.#ended(what, exit)));
    });
  }

  #take(envelope: UpEnvelope): void {
    const message = envelope.up === 'point' ? { type: POINT, name: envelope.name } : envelope.message;
    const logged = { atMs: envelope.atMs, message };
    this.#messages.push(logged);
    for (const listener of this.#listeners) listener(logged);
    const waiter = [...this.#waiters].find(({ matches }) => matches(message));
    if (waiter === undefined) this.#unread.push(message);
    else waiter.settle(message);
  }

  #send(envelope: DownEnvelope): void {
    this.#assertRunning('spoken to');
    this.#host.send(envelope);
  }

  #assertRunning(verb: string): void {
    if (this.#exit === undefined) return;
    throw new TestkitError(
      'not-running',
      `worker ${this.name} cannot be ${verb}: ${this.#describe(this.#exit)}`,
    );
  }

  #end(exit: ProcessExit): ProcessExit {
    this.#exit = exit;
    return exit;
  }

  #late(what: string, timeoutMs: number): TestkitError {
    const seen = this.#messages.map(({ message }) => message.type).join(', ') || 'nothing';
    return new TestkitError(
      'timeout',
      `worker ${this.name} did not send ${what} within ${timeoutMs} ms; it sent: ${seen}${this.#errors()}`,
    );
  }

  #ended(what: string, exit: ProcessExit): TestkitError {
    return new TestkitError(
      'not-running',
      `worker ${this.name} ended before it sent ${what}: ${this.#describe(exit)}`,
    );
  }

  #describe(exit: ProcessExit): string {
    return `it ended by ${describeExit(exit)}${this.#errors()}`;
  }

  #errors(): string {
    return this.#stderr === '' ? '' : `; its stderr ends with:\n${this.#stderr.trim().slice(-4_000)}`;
  }
}
