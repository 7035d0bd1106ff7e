// One contestant at work: its processes, their pauses, and what they were told.
import { setTimeout as delay } from 'node:timers/promises';
import { startWorker, type Worker, type WorkerMessage } from '@lockkeeper/testkit';
import type { Contestant, Outcome, Setting } from './contestants.ts';
import type { ListStore } from './list-store.ts';

export const PROCESSES = 5;
export const TTL_MS = 2_000;
const WORK_MS = 200;
/** Between two pauses of one process, and how long one lasts: uniform. */
const BETWEEN_PAUSES_MS = [2_500, 7_500] as const;
const PAUSE_MS = [1_500, 5_000] as const;

/** One row of the result. */
export interface Tally {
  readonly contestant: Contestant;
  readonly acknowledged: number;
  /** Acknowledged, and not in the list. */
  readonly lost: number;
  /** Updates that a guard refused, each of them a late write. */
  readonly refused: number;
  /** Written, or not, by a process that was then told that it had lost the lock. */
  readonly unknown: number;
  readonly pauses: number;
}

interface Update extends WorkerMessage {
  readonly type: 'update';
  readonly element: string;
  readonly outcome: Outcome;
}

export class Group implements AsyncDisposable {
  readonly contestant: Contestant;
  readonly #store: ListStore;
  readonly #workers: readonly Worker[];
  #pauses = 0;

  private constructor(contestant: Contestant, store: ListStore, workers: readonly Worker[]) {
    this.contestant = contestant;
    this.#store = store;
    this.#workers = workers;
  }

  static async start(
    contestant: Contestant,
    store: ListStore,
    servers: Pick<Setting, 'etcdEndpoint' | 'postgresUrl'>,
  ): Promise<Group> {
    const file = new URL('worker.ts', import.meta.url);
    const names = Array.from({ length: PROCESSES }, (_, number) => `${contestant}-${number + 1}`);
    const workers = await Promise.all(
      names.map((name) => {
        const setting: Setting = { contestant, name, ...servers, ttlMs: TTL_MS, workMs: WORK_MS };
        return startWorker(file, { name, args: [JSON.stringify(setting)] });
      }),
    );
    return new Group(contestant, store, workers);
  }

  /** Pauses each process now and then, until `signal` aborts; all of them run again when this resolves. */
  async pauseUntil(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#workers.map((worker) => this.#pauseNowAndThen(worker, signal)));
  }

  async #pauseNowAndThen(worker: Worker, signal: AbortSignal): Promise<void> {
    while (await passes(between(BETWEEN_PAUSES_MS), signal)) {
      await worker.pause();
      this.#pauses += 1;
      await passes(between(PAUSE_MS), signal);
      worker.resume();
    }
  }

  /** Lets every process finish its update and end. */
  async finish(): Promise<void> {
    for (const worker of this.#workers) worker.send({ type: 'stop' });
    const exits = await Promise.all(this.#workers.map(({ exited }) => exited));
    for (const [at, { code, signal }] of exits.entries()) {
      const worker = this.#workers[at];
      if (code !== 0) throw new Error(`${worker?.name} ended with ${code ?? signal}: ${worker?.stderr}`);
    }
  }

  /** As far as it has come. An update that is under way counts nowhere. */
  async tally(): Promise<Tally> {
    const updates = this.#workers.flatMap(({ messages }) => messages.map(({ message }) => message as Update));
    const elements = (outcome: Outcome) =>
      updates.filter((update) => update.outcome === outcome).map(({ element }) => element);
    const acknowledged = elements('acknowledged');
    const found = await this.#store.all();
    return {
      contestant: this.contestant,
      acknowledged: acknowledged.length,
      lost: acknowledged.filter((element) => !found.has(element)).length,
      refused: elements('refused').length,
      unknown: elements('unknown').length,
      pauses: this.#pauses,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.kill()));
  }
}

/** Whether the time has passed before `signal` aborted. */
function passes(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  return delay(milliseconds, true, { signal }).catch(() => false);
}

function between([low, high]: readonly [number, number]): number {
  return low + Math.random() * (high - low);
}
