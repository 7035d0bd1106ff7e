import type { LockkeeperError } from '@lockkeeper/core';
import type { Checker } from './checker.ts';
import type { Held } from './held.ts';
import type { WorkStep } from './plan.ts';
import type { SimulatedProcess } from './process.ts';
import type { SimulatedStorage } from './storage.ts';
import type { EtcdValue } from './storage-rules.ts';
import type { Trace } from './trace.ts';

/** What is thrown by work that fails on purpose. */
export class WorkFailed extends Error {
  override readonly name = 'WorkFailed';
}

/** What a process does under its holds: it reads and writes what they guard, careless of time. */
export class HoldersWork {
  readonly #process: SimulatedProcess;
  readonly #storage: SimulatedStorage;
  readonly #checker: Checker;
  readonly #trace: Trace | undefined;
  #background = 0;

  constructor(
    process: SimulatedProcess,
    storage: SimulatedStorage,
    checker: Checker,
    trace: Trace | undefined,
  ) {
    this.#process = process;
    this.#storage = storage;
    this.#checker = checker;
    this.#trace = trace;
  }

  /** Nothing that it began is still under way. */
  get isIdle(): boolean {
    return this.#background === 0;
  }

  async do(held: Held, work: readonly WorkStep[]): Promise<void> {
    for (const [index, step] of work.entries()) {
      const id = `${held.attempt.visit.id}.${index + 1}`;
      switch (step.do) {
        case 'think':
          await this.#process.sleep(step.ms);
          break;
        case 'look':
          void held.hold.standing;
          break;
        case 'throw':
          throw new WorkFailed(id);
        case 'guarded write':
          await this.#perhapsAwait(step.await, this.write(held, id, step.stallMs));
          break;
        case 'etcd write':
          await this.#perhapsAwait(step.await, this.#writeToEtcd(held, step.stallMs));
          break;
      }
    }
  }

  async #perhapsAwait(wait: boolean, work: Promise<void>): Promise<void> {
    this.#background += 1;
    const counted = work.finally(() => {
      this.#background -= 1;
    });
    if (wait) await counted;
  }

  /** Reads, perhaps stands still, and writes: what a holder does that looks at nothing but its data. */
  async write(held: Held, id: string, stallMs: number): Promise<void> {
    const { lock } = held.attempt.visit;
    const guard = this.#storage.guardFor(this.#process, lock);
    let saw: number;
    try {
      saw = await guard.read();
    } catch {
      return;
    }
    if (stallMs > 0) await this.#stall(stallMs);
    let failure: unknown;
    try {
      await guard.write({ id, token: held.hold.token, saw });
    } catch (error) {
      failure = error;
    }
    this.#checker.storage.answered(this.#storage.resource(lock), id, failure);
  }

  async #writeToEtcd(held: Held, stallMs: number): Promise<void> {
    const { hold, key, token, attempt } = held;
    const { coordinator } = attempt.seat.keeper;
    const data = `data/${attempt.visit.lock}`;
    try {
      const { kvs } = await coordinator.range({ key: data });
      if (stallMs > 0) await this.#stall(stallMs);
      const value: EtcdValue = {
        by: hold.token.acquisition,
        key,
        token: String(token),
        saw: String(kvs[0]?.modRevision ?? 0n),
      };
      await coordinator.txn({
        compare: hold.compare(),
        success: [{ op: 'put', key: data, value: JSON.stringify(value) }],
        failure: [],
      });
    } catch (error) {
      const { code } = error as LockkeeperError;
      const may =
        code === 'unreachable' || code === 'limit-exceeded' || (code === 'closed' && attempt.seat.closing);
      if (!may) this.#checker.report('false-error', `a write to etcd failed: ${error}`);
    }
  }

  async #stall(ms: number): Promise<void> {
    this.#trace?.add(this.#process.name, `stands still for ${Math.round(ms)} ms`);
    await this.#process.stall(ms);
  }
}
