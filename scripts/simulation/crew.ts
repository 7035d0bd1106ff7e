import { type MessageOf, startWorker, type Worker } from '@lockkeeper/testkit';
import type { Answer, Order, SeedShrunk, SeedTraced, SeedViolation, Tally } from './orders.ts';

const CHUNK = 25;
const PATIENCE_MS = 600_000;

export interface PlayOptions {
  readonly from: number;
  readonly count: number;
  /** The folder of a changed copy of core's sources. Default: this repository's core. */
  readonly core?: string | undefined;
  /** Plays no more seeds once a violation is found. Default `false`. */
  readonly stopAtFirst?: boolean | undefined;
  readonly onProgress?: (tally: Tally, violations: number) => void;
}

export interface Played {
  readonly tally: Tally;
  /** In the order of their seeds. */
  readonly violations: readonly SeedViolation[];
}

type SeedWorker = Worker<Answer, Order>;

/** Processes that play seeds, one simulation at a time each. */
export class Crew implements AsyncDisposable {
  readonly #workers: readonly SeedWorker[];

  static async start(size: number): Promise<Crew> {
    const file = new URL('./seed-worker.ts', import.meta.url);
    const numbers = Array.from({ length: size }, (_, index) => index + 1);
    return new Crew(
      await Promise.all(
        numbers.map((number) => startWorker<Answer, Order>(file, { name: `seeds ${number}` })),
      ),
    );
  }

  private constructor(workers: readonly SeedWorker[]) {
    this.#workers = workers;
  }

  async play(options: PlayOptions): Promise<Played> {
    const { from, count, core, stopAtFirst = false, onProgress = () => {} } = options;
    const violations: SeedViolation[] = [];
    let tally: Tally = { seeds: 0, steps: 0, simulatedMs: 0, grants: 0, losses: 0 };
    let next = from;
    const work = async (worker: SeedWorker): Promise<void> => {
      while (next < from + count && !(stopAtFirst && violations.length > 0)) {
        const chunk = Math.min(CHUNK, from + count - next);
        const order: Order = { type: 'play', core, from: next, count: chunk, stopAtFirst };
        next += chunk;
        const played = await ask(worker, order, 'played');
        tally = sum(tally, played);
        violations.push(...played.violations);
        onProgress(tally, violations.length);
      }
    };
    await Promise.all(this.#workers.map(work));
    return { tally, violations: violations.sort((a, b) => a.seed - b.seed) };
  }

  shrink(seed: number, core?: string): Promise<SeedShrunk> {
    return ask(this.#first, { type: 'shrink', core, seed }, 'shrunk');
  }

  trace(seed: number, core?: string): Promise<SeedTraced> {
    return ask(this.#first, { type: 'trace', core, seed }, 'traced');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.kill()));
  }

  get #first(): SeedWorker {
    const [worker] = this.#workers;
    if (worker === undefined) throw new RangeError('a crew of nobody');
    return worker;
  }
}

function ask<Type extends Answer['type']>(
  worker: SeedWorker,
  order: Order,
  answer: Type,
): Promise<MessageOf<Answer, Type>> {
  worker.send(order);
  return worker.next(answer, { timeoutMs: PATIENCE_MS });
}

function sum(a: Tally, b: Tally): Tally {
  return {
    seeds: a.seeds + b.seeds,
    steps: a.steps + b.steps,
    simulatedMs: a.simulatedMs + b.simulatedMs,
    grants: a.grants + b.grants,
    losses: a.losses + b.losses,
  };
}
