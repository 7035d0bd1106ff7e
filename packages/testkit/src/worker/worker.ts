import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, resolve as resolvePath } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { ContainerHandle } from '../containers/docker-api.ts';
import { TestkitError } from '../errors.ts';
import { checkMs, invalid } from '../options.ts';
import { TemporaryFolder } from '../owned-server.ts';
import { describeExit, type ProcessExit } from '../server-process.ts';
import {
  goOnFileOf,
  type MessageOf,
  type PauseOrder,
  type Typed,
  type UpEnvelope,
  WORKER_VARIABLE,
  type WorkerBirth,
  type WorkerMessage,
} from './messages.ts';
import { checkPause, OrderedPause, type Pause, type PauseOptions, standstillOf } from './pause.ts';
import { processHost } from './process-host.ts';
import type { RunningWorker, WorkerHost } from './worker-host.ts';
import { WorkerLink } from './worker-link.ts';

export interface WorkerOptions {
  /** For messages and logs. Default: the file's name. */
  readonly name?: string | undefined;
  /** `process.argv.slice(2)` of the worker. */
  readonly args?: readonly string[] | undefined;
  /** Added to the environment; `undefined` takes a variable out. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Options of Node, such as `--expose-gc`. */
  readonly execArgv?: readonly string[] | undefined;
  /** Points at which it pauses, known to it from its first line on: see {@link Worker.pauseAt}. */
  readonly pauseAt?: Readonly<Record<string, PauseOptions>> | undefined;
  /** Where it runs. Default: a process of this machine. */
  readonly host?: WorkerHost | undefined;
}

export interface NextOptions {
  /** Default 30,000. */
  readonly timeoutMs?: number | undefined;
}

/** A message with the moment when the worker sent it. */
export interface LoggedMessage<Message extends Typed = WorkerMessage> {
  /** Wall time by the worker's clock, milliseconds since the epoch, with fractions. */
  readonly atMs: number;
  readonly message: Message;
}

const KEPT_OUTPUT_CHARACTERS = 64_000;

/**
 * Starts a Node process on a TypeScript or JavaScript file, which can be paused from outside, also at points that
 * it names itself, and talks through `@lockkeeper/testkit/worker`. TypeScript runs through `tsx`, which must be
 * installed.
 *
 * `Messages` and `Commands` are what it says and what it is told, each a union of objects with a `type` of its own.
 *
 * The worker ends with this process, in whatever way that ends, even while it is paused.
 * @throws {@link TestkitError} `start-failed`, `invalid-option`
 */
export async function startWorker<
  Messages extends Typed = WorkerMessage,
  Commands extends Typed = WorkerMessage,
>(file: string | URL, options: WorkerOptions = {}): Promise<Worker<Messages, Commands>> {
  const path = pathOf(file);
  for (const name of ['args', 'execArgv'] as const) {
    const list = options[name];
    // A text would be taken apart into its letters.
    if (list !== undefined && !Array.isArray(list)) throw invalid(name, list, 'a list of texts');
  }
  return Worker.start<Messages, Commands>(path, options, loaderOf(path));
}

/** @internal @throws TestkitError `invalid-option` */
export function pathOf(file: string | URL): string {
  const isUrl = file instanceof URL || (typeof file === 'string' && file.startsWith('file:'));
  if (isUrl && new URL(file).protocol === 'file:') return fileURLToPath(file);
  if (!isUrl && typeof file === 'string') return resolvePath(file);
  throw invalid('worker', String(file), 'the path or file: URL of a module');
}

/** @internal Options of Node that let it run this file. */
export function loaderOf(path: string): string[] {
  if (!/\.[cm]?tsx?$/.test(path)) return [];
  // Run from sources, we want the worker to see the same sources.
  const conditions = import.meta.url.endsWith('.ts') ? ['--conditions=@lockkeeper/source'] : [];
  return [...conditions, '--import', pathToFileURL(resolveTsx(path)).href];
}

function resolveTsx(path: string): string {
  try {
    return createRequire(pathToFileURL(`${dirname(path)}/`)).resolve('tsx');
  } catch (cause) {
    const message = `worker ${path}: TypeScript needs tsx; npm install --save-dev tsx`;
    throw new TestkitError('start-failed', message, { cause });
  }
}

interface Waiter<Messages> {
  readonly matches: (message: Messages) => boolean;
  readonly resolve: (message: Messages) => void;
}

/** A process started by `startWorker`. */
export class Worker<Messages extends Typed = WorkerMessage, Commands extends Typed = WorkerMessage>
  implements AsyncDisposable
{
  readonly name: string;
  /** Resolves, never rejects, when it has ended, its output is complete and all that it said is in `messages`. */
  readonly exited: Promise<ProcessExit>;
  readonly #folder: TemporaryFolder;
  readonly #link: WorkerLink;
  readonly #running: RunningWorker;
  readonly #output: Output;
  readonly #messages: LoggedMessage<Messages>[] = [];
  readonly #unread: Messages[] = [];
  readonly #waiters = new Set<Waiter<Messages>>();
  readonly #listeners = new Set<(logged: LoggedMessage<Messages>) => void>();
  readonly #pauses = new Map<number, OrderedPause>();
  #exit: ProcessExit | undefined;

  /** @internal */
  static async start<Messages extends Typed, Commands extends Typed>(
    file: string,
    options: WorkerOptions,
    loader: readonly string[],
  ): Promise<Worker<Messages, Commands>> {
    const name = options.name ?? basename(file);
    const folder = new TemporaryFolder('lockkeeper-worker-');
    const output = new Output();
    const early: UpEnvelope[] = [];
    let worker: Worker<Messages, Commands> | undefined;
    let running: RunningWorker | undefined;
    let link: WorkerLink | undefined;
    try {
      link = await WorkerLink.open(folder.path, (envelope) => {
        if (worker === undefined) early.push(envelope);
        else worker.#take(envelope);
      });
      const planned = Object.entries(options.pauseAt ?? {});
      const orders = planned.map(([point, pause], id) => orderOf(id, point, pause));
      const birth: WorkerBirth = { folder: folder.path, pauses: orders };
      running = await (options.host ?? processHost).launch({
        name,
        file,
        args: options.args ?? [],
        env: { ...options.env, [WORKER_VARIABLE]: JSON.stringify(birth) },
        execArgv: [...loader, ...(options.execArgv ?? [])],
        folder: folder.path,
        onOutput: (stream, text) => output.add(stream, text),
      });
      worker = new Worker(name, folder, link, running, output);
      for (const [point, pause] of planned) worker.#order(point, pause);
      for (const envelope of early) worker.#take(envelope);
      return worker;
    } catch (error) {
      await running?.kill('SIGKILL');
      await running?.exited;
      await link?.end();
      await folder.remove();
      throw error;
    }
  }

  private constructor(
    name: string,
    folder: TemporaryFolder,
    link: WorkerLink,
    running: RunningWorker,
    output: Output,
  ) {
    this.name = name;
    this.#folder = folder;
    this.#link = link;
    this.#running = running;
    this.#output = output;
    this.exited = this.#whenEnded();
  }

  /** The container that it runs in, if it does. */
  get container(): ContainerHandle | undefined {
    return this.#running.container;
  }

  /** The process, as this machine numbers it. */
  get pid(): number {
    return this.#running.pid;
  }

  /** Everything it reported, in order, whether read by `next` or not. */
  get messages(): readonly LoggedMessage<Messages>[] {
    return this.#messages;
  }

  /** The last 64,000 characters of its standard output. */
  get stdout(): string {
    return this.#output.stdout;
  }

  /** The last 64,000 characters of its standard error. */
  get stderr(): string {
    return this.#output.stderr;
  }

  /**
   * Sends a command to the worker's `onCommand`. A paused worker finds it when it goes on.
   * @throws {@link TestkitError} `not-running`; `invalid-option` where structured clone cannot carry it, such as a
   * function.
   */
  send(message: Commands): void {
    this.#assertRunning('spoken to');
    try {
      this.#link.send({ down: 'command', message });
    } catch (cause) {
      const why = `worker ${this.name} cannot be told that: ${(cause as Error).message}`;
      throw new TestkitError('invalid-option', why, { cause });
    }
  }

  /**
   * The first message not yet read whose type, or whatever else `filter` asks, matches; those before it
   * stay unread. Each message is read once.
   * @throws {@link TestkitError} `timeout`, or `not-running` with its stderr when it ends before.
   */
  next<Type extends Messages['type']>(
    filter: Type,
    options?: NextOptions,
  ): Promise<MessageOf<Messages, Type>>;
  next(filter: (message: Messages) => boolean, options?: NextOptions): Promise<Messages>;
  async next(
    filter: Messages['type'] | ((message: Messages) => boolean),
    options: NextOptions = {},
  ): Promise<Messages> {
    const timeoutMs = checkMs('timeoutMs', options.timeoutMs, 30_000);
    const matches = typeof filter === 'function' ? filter : (message: Messages) => message.type === filter;
    const index = this.#unread.findIndex(matches);
    if (index >= 0) return this.#unread.splice(index, 1)[0] as Messages;
    const what = typeof filter === 'function' ? 'to the message waited for' : `to "${filter}"`;
    let waiter: Waiter<Messages> | undefined;
    const coming = new Promise<Messages>((resolve) => {
      waiter = { matches, resolve };
      this.#waiters.add(waiter);
    });
    try {
      return await this.#within(coming, what, timeoutMs);
    } finally {
      if (waiter !== undefined) this.#waiters.delete(waiter);
    }
  }

  /**
   * Calls `listener` with everything it reports from now on, in order and before `next` hands it out, until
   * disposed. What it has reported so far is in `messages`. A listener must not throw: nobody would catch it.
   */
  onMessage(listener: (logged: LoggedMessage<Messages>) => void): Disposable {
    // In a function of its own: the same listener may be given twice.
    const call = (logged: LoggedMessage<Messages>) => listener(logged);
    this.#listeners.add(call);
    return { [Symbol.dispose]: () => void this.#listeners.delete(call) };
  }

  /**
   * Orders the worker to pause at `pausePoint(point)` the next time that it comes there, once. The order is heard
   * before whatever is sent after it; a worker that does not wait for commands is told by the option `pauseAt`,
   * and this returns the pause that was ordered so.
   * @throws {@link TestkitError} `invalid-option`, `not-running`
   */
  pauseAt(point: string, options?: PauseOptions): Pause {
    const ordered = [...this.#pauses.values()].find((pause) => pause.point === point && pause.isOpen);
    if (ordered !== undefined && options === undefined) return ordered;
    this.#assertRunning('paused');
    const pause = this.#order(point, options ?? {});
    this.#link.send({ down: 'pause-at', order: orderOf(pause.id, point, options ?? {}) });
    return pause;
  }

  /** Freezes it wherever it is. Resolves when nothing of it runs any more. */
  async pause(): Promise<void> {
    this.#assertRunning('paused');
    await this.#running.freeze(this.#running.freezes[0]);
  }

  /** Lets it go on after `pause()`. A pause at a point has a `resume` of its own. */
  async resume(): Promise<void> {
    this.#assertRunning('resumed');
    await this.#running.thaw();
  }

  /**
   * Ends it by a signal, default SIGKILL, and resolves when it is gone. A paused worker is resumed for any
   * other signal, since a stopped process acts on none. Idempotent.
   */
  async kill(name: NodeJS.Signals = 'SIGKILL'): Promise<ProcessExit> {
    if (this.#exit === undefined) await this.#running.kill(name);
    return this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #whenEnded(): Promise<ProcessExit> {
    const exit = await this.#running.exited;
    await this.#link.end();
    this.#exit = exit;
    await this.#folder.remove();
    return exit;
  }

  #order(point: string, options: PauseOptions): OrderedPause {
    const { freezes } = this.#running;
    checkPause(this.name, point, options, freezes);
    const site = {
      name: this.name,
      running: this.#running,
      within: <T>(promise: Promise<T>, what: string, timeoutMs: number) =>
        this.#within(promise, what, timeoutMs),
      goOn: (id: number) => this.#goOn(id),
    };
    const pause = new OrderedPause(site, this.#pauses.size, point, options.how ?? freezes[0]);
    this.#pauses.set(pause.id, pause);
    return pause;
  }

  /** Both ways: a blocked worker hears nothing, one that waits looks at no file. */
  #goOn(id: number): void {
    if (this.#exit !== undefined) return;
    writeFileSync(goOnFileOf(this.#folder.path, id), '');
    this.#link.send({ down: 'go-on', id });
  }

  #take(envelope: UpEnvelope): void {
    if (envelope.up === 'point') {
      this.#pauses.get(envelope.id)?.arrived();
      return;
    }
    const message = envelope.message as Messages;
    const logged = { atMs: envelope.atMs, message };
    this.#messages.push(logged);
    for (const listener of this.#listeners) listener(logged);
    const waiter = [...this.#waiters].find(({ matches }) => matches(message));
    if (waiter === undefined) {
      this.#unread.push(message);
      return;
    }
    this.#waiters.delete(waiter);
    waiter.resolve(message);
  }

  /** What is waited for, unless the worker ends first, or the time. */
  #within<T>(promise: Promise<T>, what: string, timeoutMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(this.#late(what, timeoutMs)), timeoutMs);
      promise.then(resolve, reject).finally(() => clearTimeout(timer));
      void this.exited.then((exit) => {
        clearTimeout(timer);
        reject(this.#failure(`ended before it came ${what}: ${this.#describe(exit)}`));
      });
    });
  }

  #assertRunning(verb: string): void {
    if (this.#exit !== undefined) throw this.#failure(`cannot be ${verb}: ${this.#describe(this.#exit)}`);
  }

  #late(what: string, timeoutMs: number): TestkitError {
    const seen = this.#messages.map(({ message }) => message.type).join(', ') || 'nothing';
    const message = `worker ${this.name} did not come ${what} within ${timeoutMs} ms; it sent: ${seen}`;
    return new TestkitError('timeout', `${message}${this.#errors()}`);
  }

  #failure(what: string): TestkitError {
    return new TestkitError('not-running', `worker ${this.name} ${what}`);
  }

  #describe(exit: ProcessExit): string {
    return `it ended by ${describeExit(exit)}${this.#errors()}`;
  }

  #errors(): string {
    return this.stderr === '' ? '' : `; its stderr ends with:\n${this.stderr.trim().slice(-4_000)}`;
  }
}

/** What it wrote, the end of it. */
class Output {
  stdout = '';
  stderr = '';

  add(stream: 'stdout' | 'stderr', text: string): void {
    this[stream] = (this[stream] + text).slice(-KEPT_OUTPUT_CHARACTERS);
  }
}

function orderOf(id: number, name: string, { how, forMs }: PauseOptions): PauseOrder {
  return { id, name, standstill: how === undefined ? 'block' : standstillOf(how), forMs };
}
