// The points at which this worker is to pause, and its standing still there.
import { existsSync } from 'node:fs';
import { goOnFileOf, type PauseOrder, type WorkerBirth } from '../worker/messages.ts';

/** How often a blocked process looks whether it may go on. */
const LOOK_EVERY_MS = 2;

export interface PointsHost {
  /** Tells the parent. Resolves when the kernel has it. */
  arrive(id: number): Promise<void>;
  /** `waits` has changed. */
  waiting(): void;
}

export class PausePoints {
  readonly #folder: string;
  readonly #host: PointsHost;
  readonly #orders: PauseOrder[];
  readonly #waiting = new Map<number, () => void>();
  #listener: ((name: string) => void) | undefined;

  constructor({ folder, pauses }: WorkerBirth, host: PointsHost) {
    this.#folder = folder;
    this.#host = host;
    this.#orders = [...pauses];
  }

  /** Whether code waits at a point while the event loop runs. */
  get waits(): boolean {
    return this.#waiting.size > 0;
  }

  order(order: PauseOrder): void {
    this.#orders.push(order);
  }

  /** Calls `listener` with every point that is passed, paused at or not. */
  listen(listener: (name: string) => void): void {
    this.#listener = listener;
  }

  pass(name: string): Promise<void> | undefined {
    this.#listener?.(name);
    const index = this.#orders.findIndex((order) => order.name === name);
    if (index < 0) return undefined;
    const [order] = this.#orders.splice(index, 1);
    return order && this.#stand(order);
  }

  /** The order is taken back, or its pause is over. */
  goOn(id: number): void {
    const index = this.#orders.findIndex((order) => order.id === id);
    if (index >= 0) this.#orders.splice(index, 1);
    this.#waiting.get(id)?.();
  }

  async #stand({ id, standstill, forMs }: PauseOrder): Promise<void> {
    const goOn = standstill === 'wait' ? this.#wait(id) : undefined;
    await this.#host.arrive(id);
    if (goOn === undefined) this.#block(id, forMs);
    await goOn;
  }

  async #wait(id: number): Promise<void> {
    const told = new Promise<void>((resolve) => this.#waiting.set(id, resolve));
    this.#host.waiting();
    await told;
    this.#waiting.delete(id);
    this.#host.waiting();
  }

  /** Nothing else of this thread's JavaScript runs meanwhile, so that what follows comes before any timer. */
  #block(id: number, forMs = Number.POSITIVE_INFINITY): void {
    const file = goOnFileOf(this.#folder, id);
    const cell = new Int32Array(new SharedArrayBuffer(4));
    const end = performance.now() + forMs;
    while (!existsSync(file) && performance.now() < end) Atomics.wait(cell, 0, 0, LOOK_EVERY_MS);
  }
}
