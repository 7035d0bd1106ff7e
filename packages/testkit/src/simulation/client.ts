import type { connect, Hold, Keeper, LockkeeperError } from '@lockkeeper/core';
import type { Attempt, Seat } from './acquire-rules.ts';
import type { Checker } from './checker.ts';
import { SimulatedConnection, type Surroundings } from './connection.ts';
import type { Held } from './held.ts';
import { HoldersWork, WorkFailed } from './holders-work.ts';
import type { ClientPlan, Visit } from './plan.ts';
import type { SimulatedProcess } from './process.ts';
import type { SimulatedStorage } from './storage.ts';

export interface ClientParts {
  readonly plan: ClientPlan;
  readonly process: SimulatedProcess;
  readonly around: Surroundings;
  readonly storage: SimulatedStorage;
  readonly checker: Checker;
  readonly connect: typeof connect;
}

/** A program that uses the SDK as users do: real keepers, locks and holds, one keeper at a time. */
export class SimulatedClient {
  readonly process: SimulatedProcess;
  readonly seats: Seat[] = [];
  readonly #parts: ClientParts;
  readonly #work: HoldersWork;
  readonly #visits: Promise<unknown>;
  #seat: Promise<Seat>;
  #connections = 0;
  #visitsOver = false;

  constructor(parts: ClientParts) {
    this.#parts = parts;
    this.process = parts.process;
    this.#work = new HoldersWork(parts.process, parts.storage, parts.checker, parts.around.trace);
    this.#seat = this.#open();
    this.#visits = Promise.all(parts.plan.workers.map((visits) => this.#runAll(visits))).then(() => {
      this.#visitsOver = true;
    });
  }

  /** Everything it set out to do has come to an end; one that was killed is done too. */
  get isDone(): boolean {
    return this.process.isDead || (this.#visitsOver && this.#work.isIdle);
  }

  breakWatches(): void {
    for (const { connection } of this.seats) connection.breakWatches();
  }

  /** Closes the keeper; what is to come uses a new one. */
  async reopen(): Promise<void> {
    const seat = await this.#seat;
    if (seat.closing) return;
    this.#seat = this.#open();
    await this.#close(seat);
  }

  /** Closes for good. Resolves when all that it had open is closed. */
  async close(): Promise<void> {
    await this.#visits;
    const seat = await this.#seat;
    await this.#close(seat);
  }

  async #close(seat: Seat): Promise<void> {
    seat.closing = true;
    this.#say('closes its keeper');
    await seat.keeper.close();
    this.#say('has closed its keeper');
    this.#parts.checker.closed(this.process, seat);
  }

  async #open(): Promise<Seat> {
    for (;;) {
      this.#connections += 1;
      const name = this.#connections === 1 ? this.process.name : `${this.process.name}(${this.#connections})`;
      const connection = new SimulatedConnection(name, this.process, this.#parts.around);
      try {
        const { ttlMs } = this.#parts.plan;
        const keeper = await this.#parts.connect({ coordinator: connection, ttlMs, identity: name });
        const seat = { keeper, connection, closing: false };
        this.seats.push(seat);
        return seat;
      } catch (error) {
        const { code } = error as LockkeeperError;
        this.#say(`cannot connect: ${code}`);
        if (code !== 'unreachable' && code !== 'limit-exceeded')
          this.#parts.checker.report('false-error', `${name} connect: ${error}`);
        await this.process.sleep(500);
      }
    }
  }

  async #runAll(visits: readonly Visit[]): Promise<void> {
    for (const visit of visits) {
      await this.process.sleep(visit.restMs);
      await this.#visit(visit, await this.#seat);
    }
  }

  async #visit(visit: Visit, seat: Seat): Promise<void> {
    const { process } = this;
    const { checker, storage, around } = this.#parts;
    const controller = new AbortController();
    const attempt: Attempt = {
      visit,
      seat,
      process,
      startedAt: around.world.now,
      startedAtOwnTime: process.now(),
      openingsFailedBefore: seat.connection.openingsFailed,
      abortReason: undefined,
    };
    const abort = () => {
      attempt.abortReason = new Error(`${visit.id} was cancelled`);
      controller.abort(attempt.abortReason);
    };
    const timer = visit.abortAfterMs === undefined ? undefined : process.setTimer(visit.abortAfterMs, abort);
    const options = {
      signal: controller.signal,
      waitTimeoutMs: visit.waitTimeoutMs,
      claims: visit.claims ? [storage.guardFor(process, visit.lock)] : [],
      claimTimeoutMs: visit.claimTimeoutMs,
    };
    checker.acquiring.begun(attempt);
    this.#say(
      `${visit.how} ${visit.lock} (${visit.id})${visit.waitTimeoutMs === undefined ? '' : `, waits ${Math.round(visit.waitTimeoutMs)} ms`}`,
    );
    try {
      if (visit.how === 'using') await this.#using(attempt, options);
      else await this.#holding(attempt, options);
    } finally {
      timer?.cancel();
    }
  }

  async #holding(
    attempt: Attempt,
    options: Parameters<ReturnType<Keeper['lock']>['acquire']>[0],
  ): Promise<void> {
    const { visit, seat } = attempt;
    const lock = seat.keeper.lock(visit.lock);
    let hold: Hold | undefined;
    try {
      hold = visit.how === 'try' ? (await lock.tryAcquire(options)).hold : await lock.acquire(options);
    } catch (error) {
      return this.#failed(attempt, error);
    }
    if (hold === undefined) return this.#busy(attempt);
    const held = this.#granted(attempt, hold);
    await this.#work.do(held, visit.work);
    this.#parts.checker.settle(held);
    const answer = await hold.release();
    this.#say(`released ${visit.lock} (${visit.id}): ${answer.outcome}, sealed ${answer.sealed}`);
    this.#parts.checker.released(held, answer);
    if (visit.end === 'release twice') await hold.release();
    if (visit.end === 'release, then write' && visit.claims)
      await this.#work.write(held, `${visit.id}.late`, 0);
  }

  async #using(attempt: Attempt, options: Parameters<ReturnType<Keeper['lock']>['using']>[0]): Promise<void> {
    const { visit, seat } = attempt;
    let held: Held | undefined;
    try {
      await seat.keeper.lock(visit.lock).using(options, async (hold) => {
        held = this.#granted(attempt, hold);
        try {
          await this.#work.do(held, visit.work);
        } finally {
          this.#parts.checker.settle(held);
        }
        return visit.id;
      });
      this.#say(`released ${visit.lock} (${visit.id}) after using it`);
    } catch (error) {
      if (held === undefined) return this.#failed(attempt, error);
      if (error instanceof WorkFailed) return;
      const { code, result } = error as LockkeeperError;
      this.#say(`using ${visit.lock} (${visit.id}) ended: ${code}`);
      if (code !== 'lost' || result !== visit.id) {
        this.#parts.checker.report('false-error', `using ${visit.lock} (${visit.id}): ${error}`);
      }
    }
  }

  #failed(attempt: Attempt, error: unknown): void {
    const { visit } = attempt;
    const { code, lossCause, message } = error as LockkeeperError;
    this.#say(
      `not acquired ${visit.lock} (${visit.id}): ${code ?? message}${lossCause ? `, ${lossCause}` : ''}`,
    );
    this.#parts.checker.acquiring.failed(attempt, error);
  }

  #busy(attempt: Attempt): void {
    this.#say(`not acquired ${attempt.visit.lock} (${attempt.visit.id}): busy`);
    this.#parts.checker.acquiring.ended(attempt);
  }

  #granted(attempt: Attempt, hold: Hold): Held {
    const held = this.#parts.checker.granted(attempt, hold);
    this.#say(`holds ${attempt.visit.lock} (${attempt.visit.id}), token ${held.token}`);
    held.signal.addEventListener('abort', () => {
      const { code, lossCause } = held.signal.reason as LockkeeperError;
      this.#say(`is told of ${attempt.visit.lock} (${attempt.visit.id}): ${lossCause ?? code}`);
    });
    return held;
  }

  #say(what: string): void {
    this.#parts.around.trace?.add(this.process.name, what);
  }
}
