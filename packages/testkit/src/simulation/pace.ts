import type { SimulatedProcess } from './process.ts';

/**
 * When the parts of a program go on after a pause: each by itself, or at the next of the program's moments, and then
 * all that are due in one turn of its event loop, so that what they ask of etcd goes out together.
 */
export class Pace {
  readonly #process: SimulatedProcess;
  readonly #momentMs: number | undefined;
  #next: Promise<void> | undefined;

  /** @param momentMs - between two moments; `undefined`: each goes on by itself. */
  constructor(process: SimulatedProcess, momentMs: number | undefined) {
    this.#process = process;
    this.#momentMs = momentMs;
  }

  async pause(ms: number): Promise<void> {
    await this.#process.sleep(ms);
    if (this.#momentMs !== undefined) await this.#moment(this.#momentMs);
  }

  #moment(everyMs: number): Promise<void> {
    this.#next ??= this.#process.sleep(everyMs - (this.#process.now() % everyMs)).then(() => {
      this.#next = undefined;
    });
    return this.#next;
  }
}
