// A process of the benchmark: it is asked by a line of JSON, and answers with one. What it is written in makes no
// difference.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

export class LineProcess implements AsyncDisposable {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;
  readonly #ended: Promise<string>;

  /** Resolves with its first line, which it writes once it is ready. */
  static async start(command: string, args: readonly string[]): Promise<LineProcess> {
    const started = new LineProcess(command, args);
    await started.#next();
    return started;
  }

  /** A process of this Node, with the same loaders; `file` ends in {@link answerLines}. */
  static node(file: string, args: readonly string[], flags: readonly string[] = []): Promise<LineProcess> {
    return LineProcess.start(process.execPath, [...process.execArgv, ...flags, file, ...args]);
  }

  private constructor(command: string, args: readonly string[]) {
    this.#child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    // What it can no longer be told, shows as an end of its lines.
    this.#child.stdin.on('error', () => undefined);
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.#ended = new Promise((resolve) => {
      this.#child.once('error', ({ message }) => resolve(message));
      this.#child.once('exit', (code, signal) => resolve(`it ended with ${code ?? signal}`));
    });
  }

  /** One at a time. */
  ask(order: object): Promise<unknown> {
    this.#child.stdin.write(`${JSON.stringify(order)}\n`);
    return this.#next();
  }

  /** It ends when its input does. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin.end();
    await this.#ended;
  }

  async #next(): Promise<unknown> {
    const { done, value } = await this.#lines.next();
    if (!done) return JSON.parse(value);
    throw new Error(`a process of the benchmark did not answer: ${await this.#ended}`);
  }
}

/** The other end, in a process of this Node. Resolves when nothing more will be asked. */
export async function answerLines<Order>(answer: (order: Order) => Promise<unknown>): Promise<void> {
  const write = (reply: unknown) => process.stdout.write(`${JSON.stringify(reply)}\n`);
  write('ready');
  for await (const line of createInterface({ input: process.stdin })) write(await answer(JSON.parse(line)));
}
