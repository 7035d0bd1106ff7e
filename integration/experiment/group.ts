// One contestant at work: its processes, their pauses, and what they were told.
import { setTimeout as delay } from 'node:timers/promises';
import {
  checkHistory,
  type History,
  type HistoryMessage,
  HistoryRecorder,
  historyFromMessages,
  mergeHistories,
  startWorker,
  type Worker,
} from '@lockkeeper/testkit';
import type { Contestant, Setting } from './contestants.ts';
import { NAME } from './critical-section.ts';
import { lateWrites } from './late-writes.ts';
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
  /** Writes that the storage confirmed. */
  readonly acknowledged: number;
  /** Confirmed, and not in the list. */
  readonly lost: number;
  /** Writes of a process that had been stopped past its lease while others wrote. */
  readonly late: number;
  /** Writes that were refused, which only a guard does. */
  readonly refused: number;
  /** Writes that nobody confirmed, nor refused. */
  readonly unknown: number;
  readonly pauses: number;
}

export class Group implements AsyncDisposable {
  readonly contestant: Contestant;
  readonly #store: ListStore;
  readonly #workers: readonly Worker<HistoryMessage>[];
  /** What befalls the processes, as they cannot tell it themselves. */
  readonly #pauses = new HistoryRecorder();

  private constructor(contestant: Contestant, store: ListStore, workers: readonly Worker<HistoryMessage>[]) {
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
        return startWorker<HistoryMessage>(file, { name, args: [JSON.stringify(setting)] });
      }),
    );
    return new Group(contestant, store, workers);
  }

  /** Pauses each process now and then, until `signal` aborts; all of them run again when this resolves. */
  async pauseUntil(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#workers.map((worker) => this.#pauseNowAndThen(worker, signal)));
  }

  async #pauseNowAndThen(worker: Worker<HistoryMessage>, signal: AbortSignal): Promise<void> {
    while (await passes(between(BETWEEN_PAUSES_MS), signal)) {
      await worker.pause();
      this.#pauses.process(worker.name).info({ f: 'pause' });
      await passes(between(PAUSE_MS), signal);
      this.#pauses.process(worker.name).info({ f: 'resume' });
      await worker.resume();
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

  /** As far as it has come; a look at the list, taken now, is its end. */
  async history(): Promise<History> {
    const looking = new HistoryRecorder();
    const told = this.#workers.map(({ messages }) => messages);
    await looking.process('a last look').run(
      { f: 'read', resource: NAME, final: true },
      () => this.#store.all(),
      (entries) => ({ entries }),
    );
    return mergeHistories(historyFromMessages(...told), this.#pauses.history, looking.history);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.kill()));
  }
}

/** Whether the time has passed before `signal` aborted. */
function passes(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  return delay(milliseconds, true, { signal }).catch(() => false);
}

export function tallyOf(contestant: Contestant, history: History): Tally {
  const writes = new Set<string>();
  const counts = { ok: 0, fail: 0, unknown: 0, invoke: 0, info: 0, pauses: 0 };
  for (const event of history) {
    if (event.type === 'info') counts.pauses += Number(event.f === 'pause');
    else if (event.type === 'invoke') {
      if (event.f === 'write') writes.add(`${event.process} ${event.op}`);
    } else if (writes.has(`${event.process} ${event.op}`)) counts[event.type] += 1;
  }
  return {
    contestant,
    acknowledged: counts.ok,
    lost: checkHistory(history).filter(({ kind }) => kind === 'lost-update').length,
    late: lateWrites(history, TTL_MS).length,
    refused: counts.fail,
    unknown: counts.unknown,
    pauses: counts.pauses,
  };
}

function between([low, high]: readonly [number, number]): number {
  return low + Math.random() * (high - low);
}
