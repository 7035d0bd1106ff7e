import type { connect, LockkeeperError } from '@lockkeeper/core';
import type { Seat } from './acquire-rules.ts';
import type { Checker } from './checker.ts';
import { SimulatedConnection, type Surroundings } from './connection.ts';
import { HoldersWork } from './holders-work.ts';
import { lookOn } from './onlooker.ts';
import { Pace } from './pace.ts';
import type { ClientPlan, Onlooker, Visit } from './plan.ts';
import type { SimulatedProcess } from './process.ts';
import type { SimulatedStorage } from './storage.ts';
import { type Visiting, visit } from './visits.ts';

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
  readonly #pace: Pace;
  readonly #visiting: Visiting;
  readonly #visits: Promise<unknown>;
  readonly #onlookers: Promise<unknown>;
  #seat: Promise<Seat>;
  #connections = 0;
  #visitsOver = false;
  #closing = false;

  constructor(parts: ClientParts) {
    const { plan, process, storage, checker, around } = parts;
    this.#parts = parts;
    this.process = process;
    this.#pace = new Pace(process, plan.momentMs);
    const work = new HoldersWork(process, this.#pace, storage, checker, around.trace);
    this.#visiting = { process, storage, checker, around, work };
    this.#seat = this.#open();
    this.#visits = Promise.all(plan.workers.map((visits) => this.#runAll(visits))).then(() => {
      this.#visitsOver = true;
    });
    this.#onlookers = Promise.all(plan.onlookers.map((onlooker, index) => this.#lookOn(onlooker, index + 1)));
  }

  /** Everything it set out to do has come to an end; one that was killed is done too. */
  get isDone(): boolean {
    return this.process.isDead || (this.#visitsOver && this.#visiting.work.isIdle);
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
    this.#closing = true;
    const seat = await this.#seat;
    await this.#close(seat);
    await this.#onlookers;
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
        const { ttlMs, groupCommit } = this.#parts.plan;
        const options = { coordinator: connection, ttlMs, identity: name, groupCommit };
        const keeper = await this.#parts.connect(options);
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
    for (const each of visits) {
      await this.#pace.pause(each.restMs);
      await visit(each, await this.#seat, this.#visiting);
    }
  }

  /** On one keeper after another, for as long as it likes. */
  async #lookOn(onlooker: Onlooker, number: number): Promise<void> {
    await this.process.sleep(onlooker.fromMs);
    const enough = new AbortController();
    const { forMs } = onlooker;
    const timer = forMs === undefined ? undefined : this.process.setTimer(forMs, () => enough.abort());
    const who = `${this.process.name}, onlooker ${number},`;
    while (!enough.signal.aborted && !this.#closing) {
      await lookOn(onlooker, who, await this.#seat, this.#visiting, enough.signal);
    }
    timer?.cancel();
  }

  #say(what: string): void {
    this.#parts.around.trace?.add(this.process.name, what);
  }
}
