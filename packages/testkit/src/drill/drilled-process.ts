// One of the two processes of a play: it runs the user's module once.
import { fileURLToPath } from 'node:url';
import { TestkitError } from '../errors.ts';
import { loaderOf, startWorker, type WorkerOptions } from '../worker/worker.ts';
import type { Told } from './drill-history.ts';
import type { DrillCommand, DrillMessage, DrillOrder, DrillWorker } from './drill-messages.ts';
import type { RunOutcome } from './verdict.ts';

const OWN_SOURCE = import.meta.url.endsWith('.ts');
const PROGRAM = new URL(OWN_SOURCE ? './drill-worker.ts' : './drill-worker.js', import.meta.url);

export interface RunEnd {
  readonly outcome: RunOutcome;
  readonly error?: string | undefined;
}

export class DrilledProcess implements AsyncDisposable {
  readonly worker: DrillWorker;
  readonly #order: DrillOrder;

  /** @throws TestkitError `not-running` where the module cannot be loaded, its stderr says why; `timeout` */
  static async start(
    module: URL,
    order: DrillOrder,
    timeoutMs: number,
    options: Pick<WorkerOptions, 'env' | 'execArgv' | 'host' | 'pauseAt'>,
  ): Promise<DrilledProcess> {
    const loader = OWN_SOURCE ? [] : loaderOf(fileURLToPath(module));
    const worker = await startWorker<DrillMessage, DrillCommand>(PROGRAM, {
      ...options,
      name: order.keeper.identity,
      args: [module.href],
      execArgv: [...loader, ...(options.execArgv ?? [])],
    });
    try {
      await worker.next('ready', { timeoutMs });
    } catch (error) {
      await worker.kill();
      throw error;
    }
    return new DrilledProcess(worker, order);
  }

  private constructor(worker: DrillWorker, order: DrillOrder) {
    this.worker = worker;
    this.#order = order;
  }

  get update(): string {
    return this.#order.update;
  }

  get told(): Told {
    return { process: this.worker.name, update: this.update, messages: this.worker.messages };
  }

  /** The newest token of each lock that it got. */
  get tokens(): ReadonlyMap<string, string> {
    const tokens = new Map<string, string>();
    for (const { message } of this.worker.messages) {
      if (message.type === 'granted') tokens.set(message.lock, message.token);
    }
    return tokens;
  }

  /** Whether it has a lock, as far as it has said. */
  get isHolding(): boolean {
    const holds = new Set<string>();
    for (const { message } of this.worker.messages) {
      if (message.type === 'granted') holds.add(message.token);
      else if (message.type === 'lost' || message.type === 'released') holds.delete(message.token);
    }
    return holds.size > 0;
  }

  /** The points that it passed while it held a lock, each once. */
  get pointsHeld(): readonly string[] {
    const points = new Set<string>();
    let holds = 0;
    for (const { message } of this.worker.messages) {
      if (message.type === 'granted') holds += 1;
      else if (message.type === 'lost' || message.type === 'released') holds -= 1;
      else if (message.type === 'passed' && holds > 0) points.add(message.point);
    }
    return [...points];
  }

  /** Runs the module's `run`, and says how it ended; a wait of `timeoutMs` in vain is `timeout`. */
  async run(timeoutMs: number): Promise<RunEnd> {
    this.worker.send({ type: 'run', order: this.#order });
    try {
      const end = await this.worker.next(({ type }) => type === 'done' || type === 'failed', { timeoutMs });
      if (end.type !== 'failed') return { outcome: 'acknowledged' };
      return { outcome: end.rejected ? 'rejected' : 'unknown', error: end.error };
    } catch (error) {
      if (!(error instanceof TestkitError)) throw error;
      return { outcome: error.code === 'timeout' ? 'timeout' : 'ended', error: error.message };
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.worker.kill();
  }
}
