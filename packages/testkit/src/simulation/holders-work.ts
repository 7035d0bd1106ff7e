import { type LockkeeperError, prefixSpan, type Term, type WriteHold } from '@lockkeeper/core';
import { GuardError } from '@lockkeeper/fencing';
import type { Checker } from './checker.ts';
import type { Held } from './held.ts';
import type { Pace } from './pace.ts';
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
  readonly #pace: Pace;
  readonly #storage: SimulatedStorage;
  readonly #checker: Checker;
  readonly #trace: Trace | undefined;
  #background = 0;

  constructor(
    process: SimulatedProcess,
    pace: Pace,
    storage: SimulatedStorage,
    checker: Checker,
    trace: Trace | undefined,
  ) {
    this.#process = process;
    this.#pace = pace;
    this.#storage = storage;
    this.#checker = checker;
    this.#trace = trace;
  }

  /** Nothing that it began is still under way. */
  get isIdle(): boolean {
    return this.#background === 0;
  }

  /** @param name - of this run of the work, for its writes. */
  async do(held: Held, work: readonly WorkStep[], name: string): Promise<void> {
    for (const [index, step] of work.entries()) {
      const id = `${name}.${index + 1}`;
      switch (step.do) {
        case 'think':
          await this.#pace.pause(step.ms);
          break;
        case 'look':
          void held.hold.standing;
          break;
        case 'throw':
          throw new WorkFailed(id);
        case 'guarded write':
          await this.#perhapsAwait(step.await, this.writeAll(held, id, step.stallMs));
          break;
        case 'guarded read':
          await this.#perhapsAwait(step.await, this.#readAll(held, step.stallMs));
          break;
        case 'etcd write':
          await this.#perhapsAwait(step.await, this.#writeToEtcd(held, step.stallMs));
          break;
        case 'downgrade':
          await this.#downgrade(held);
          break;
        case 'proclaim':
          await this.#perhapsAwait(step.await, this.#proclaim(held, id));
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

  /** To everything that it guards; whoever reads alone reads. */
  async writeAll(held: Held, id: string, stallMs: number): Promise<void> {
    if (held.hold.token.shared || isOfReader(held)) return this.#readAll(held, stallMs);
    for (const each of held.resources) await this.write(held, each, id, stallMs);
  }

  /** What its guard says is for the rules to judge. */
  async #readAll(held: Held, stallMs: number): Promise<void> {
    const { token } = held.hold;
    if (stallMs > 0) await this.#stall(stallMs);
    for (const queue of held.resources) {
      const guard = this.#storage.guardFor(this.#process, queue, isOfReader(held));
      await guard.readUnder(token).catch((error: unknown) => {
        if (!(error instanceof GuardError)) this.#checker.report('false-error', `a guarded read: ${error}`);
      });
    }
  }

  /** Reads, perhaps stands still, and writes: what a holder does that looks at nothing but its data. */
  async write(held: Held, queue: string, id: string, stallMs: number): Promise<void> {
    const guard = this.#storage.guardFor(this.#process, queue);
    // Taken where the work begins: a downgrade gives the hold another one.
    const { token } = held.hold;
    let saw: number;
    try {
      saw = await guard.read();
    } catch {
      return;
    }
    if (stallMs > 0) await this.#stall(stallMs);
    let failure: unknown;
    try {
      await guard.write({ id, token, saw });
    } catch (error) {
      failure = error;
    }
    this.#checker.storage.answered(this.#storage.resource(queue), id, failure);
  }

  async #writeToEtcd(held: Held, stallMs: number): Promise<void> {
    const { hold, keys, token, resources, attempt } = held;
    const { coordinator } = attempt.seat.keeper;
    try {
      const { kvs } = await coordinator.range(prefixSpan('data/'));
      if (stallMs > 0) await this.#stall(stallMs);
      const puts = resources.map((resource) => {
        const key = `data/${resource}`;
        const saw = String(kvs.find((kv) => kv.key === key)?.modRevision ?? 0n);
        const value: EtcdValue = { by: hold.token.acquisition, keys, token: String(token), saw };
        return { op: 'put' as const, key, value: JSON.stringify(value) };
      });
      await coordinator.txn({ compare: hold.compare(), success: puts, failure: [] });
    } catch (error) {
      const { code } = error as LockkeeperError;
      const may =
        code === 'unreachable' || code === 'limit-exceeded' || (code === 'closed' && attempt.seat.closing);
      if (!may) this.#checker.report('false-error', `a write to etcd failed: ${error}`);
    }
  }

  async #downgrade(held: Held): Promise<void> {
    held.downgradeBegun = true;
    const begunAt = this.#process.now();
    try {
      await (held.hold as unknown as WriteHold).downgrade();
      this.#checker.downgraded(held);
    } catch (error) {
      const tookMs = this.#process.now() - begunAt;
      if (!mayNotPromise(held, tookMs, error as LockkeeperError))
        this.#checker.proclaiming.mayFail(held, 'downgrading', error as LockkeeperError);
    }
  }

  async #proclaim(held: Held, value: string): Promise<void> {
    const { hold } = held;
    const { proclaiming } = this.#checker;
    const call = proclaiming.begun(held, value);
    try {
      await (hold as unknown as Term).proclaim(value);
      proclaiming.done(call);
    } catch (error) {
      proclaiming.failed(call, error as LockkeeperError);
    }
  }

  async #stall(ms: number): Promise<void> {
    this.#trace?.add(this.#process.name, `stands still for ${Math.round(ms)} ms`);
    await this.#process.stall(ms);
  }
}

function isOfReader({ attempt }: Held): boolean {
  return attempt.visit.target.kind === 'read';
}

/** A guard that is slow, or that a newer holder or a seal was quicker at: the hold is over, or the time is. */
function mayNotPromise({ attempt, hold }: Held, tookMs: number, { code, cause }: LockkeeperError): boolean {
  const { claims, claimTimeoutMs } = attempt.visit;
  if (code === 'claim-timeout') return claims && tookMs >= claimTimeoutMs - 2;
  if (code !== 'claim-failed' || !(cause instanceof GuardError)) return false;
  return cause.code === 'stale-token' || (cause.code === 'sealed' && hold.standing !== 'held');
}
