import type { AcquireOptions, Lock, LockkeeperError, Term } from '@lockkeeper/core';
import type { Attempt, Cancellation, Seat } from './acquire-rules.ts';
import type { Checker } from './checker.ts';
import type { Surroundings } from './connection.ts';
import type { Held } from './held.ts';
import { type HoldersWork, WorkFailed } from './holders-work.ts';
import type { Visit } from './plan.ts';
import type { SimulatedProcess } from './process.ts';
import type { SimulatedStorage } from './storage.ts';
import {
  type Acquirable,
  type AnyHold,
  acquirableOf,
  describeTarget,
  electionOf,
  lockOf,
  queuesOf,
} from './target.ts';

/** Who visits, and what is around. */
export interface Visiting {
  readonly process: SimulatedProcess;
  readonly around: Surroundings;
  readonly storage: SimulatedStorage;
  readonly checker: Checker;
  readonly work: HoldersWork;
}

/** After so many terms the work counts as done. */
const MOST_TERMS = 3;

/** One visit, from its first call to its last. */
export async function visit(plan: Visit, seat: Seat, visiting: Visiting): Promise<void> {
  const { process } = visiting;
  const controller = new AbortController();
  const cancellation: Cancellation = { reason: undefined, atOwnTime: 0 };
  const cancel = () => {
    cancellation.reason = new Error(`${plan.id} was cancelled`);
    cancellation.atOwnTime = process.now();
    controller.abort(cancellation.reason);
  };
  const timer = plan.abortAfterMs === undefined ? undefined : process.setTimer(plan.abortAfterMs, cancel);
  try {
    await new OneVisit(plan, seat, visiting, cancellation, controller.signal).make();
  } finally {
    timer?.cancel();
  }
}

class OneVisit {
  readonly #plan: Visit;
  readonly #seat: Seat;
  readonly #visiting: Visiting;
  readonly #cancellation: Cancellation;
  readonly #what: string;
  readonly #options: AcquireOptions;

  constructor(plan: Visit, seat: Seat, visiting: Visiting, cancellation: Cancellation, signal: AbortSignal) {
    this.#plan = plan;
    this.#seat = seat;
    this.#visiting = visiting;
    this.#cancellation = cancellation;
    this.#what = `${describeTarget(plan.target)} (${plan.id})`;
    const { storage, process } = visiting;
    const { waitTimeoutMs, claimTimeoutMs, minHoldMs, maxHoldMs, lockDelayMs } = plan;
    const reads = plan.target.kind === 'read';
    const guards = queuesOf(plan.target).map((queue) => storage.guardFor(process, queue, reads));
    const claims = plan.claims ? guards : [];
    this.#options = { signal, waitTimeoutMs, claims, claimTimeoutMs, minHoldMs, maxHoldMs, lockDelayMs };
  }

  async make(): Promise<void> {
    const { how, target, waitTimeoutMs, ownTtlMs } = this.#plan;
    const waits = waitTimeoutMs === undefined ? '' : `, waits ${Math.round(waitTimeoutMs)} ms`;
    this.#say(`${how} ${this.#what}${ownTtlMs === undefined ? '' : ', isolated'}${waits}`);
    this.#perhapsAsk();
    if (how !== 'using') return this.#holding();
    return target.kind === 'election' ? this.#leading(target.name) : this.#using();
  }

  #perhapsAsk(): void {
    const { target, asksAfterMs } = this.#plan;
    if (asksAfterMs === undefined || target.kind === 'election' || target.kind === 'semaphore') return;
    const lock = lockOf(this.#seat.keeper, target, {});
    this.#visiting.process.setTimer(asksAfterMs, () => void this.#ask(lock));
  }

  async #ask(lock: Lock): Promise<void> {
    try {
      const { asked } = await lock.requestRelease({ reason: this.#plan.id });
      this.#say(`asked ${asked} to let go of ${this.#what}`);
    } catch (error) {
      const { code } = error as LockkeeperError;
      const may =
        code === 'unreachable' ||
        code === 'limit-exceeded' ||
        // Its own lease ended before the request was written.
        code === 'lease-not-found' ||
        (code === 'closed' && this.#seat.closing);
      if (!may) this.#visiting.checker.report('false-error', `asking for ${this.#what}: ${error}`);
    }
  }

  #begin(): Attempt {
    const { process, around, checker } = this.#visiting;
    const attempt: Attempt = {
      visit: this.#plan,
      seat: this.#seat,
      process,
      startedAt: around.world.now,
      startedAtOwnTime: process.now(),
      openingsFailedBefore: this.#seat.connection.openingsFailed,
      cancellation: this.#cancellation,
    };
    checker.acquiring.begun(attempt);
    return attempt;
  }

  async #holding(): Promise<void> {
    const { checker, work } = this.#visiting;
    const { end, claims, id } = this.#plan;
    const attempt = this.#begin();
    let hold: AnyHold | undefined;
    try {
      hold = await this.#acquire();
    } catch (error) {
      return this.#failed(attempt, error);
    }
    if (hold === undefined) {
      this.#say(`not acquired ${this.#what}: busy`);
      return checker.acquiring.ended(attempt);
    }
    const held = this.#granted(attempt, hold);
    await work.do(held, this.#plan.work, id);
    checker.settle(held);
    const answer = await hold.release();
    this.#say(`released ${this.#what}: ${answer.outcome}, sealed ${answer.sealed}`);
    checker.released(held, answer);
    if (end === 'release twice') await hold.release();
    if (end === 'release, then write' && claims) await work.writeAll(held, `${id}.late`, 0);
  }

  async #acquire(): Promise<AnyHold | undefined> {
    const { target, how, ownTtlMs, id } = this.#plan;
    const { keeper } = this.#seat;
    if (target.kind === 'election')
      return electionOf(keeper, target.name, { ttlMs: ownTtlMs }).campaign({ ...this.#options, value: id });
    const lock = this.#acquirable(target);
    return how === 'try' ? (await lock.tryAcquire(this.#options)).hold : lock.acquire(this.#options);
  }

  #acquirable(target: Exclude<Visit['target'], { kind: 'election' }>): Acquirable {
    const { ownTtlMs, claims } = this.#plan;
    const { storage, process } = this.#visiting;
    const guardsOf = (resource: string) => (claims ? [storage.guardFor(process, resource)] : []);
    return acquirableOf(this.#seat.keeper, target, { ttlMs: ownTtlMs }, guardsOf);
  }

  async #using(): Promise<void> {
    const { checker, work } = this.#visiting;
    const { target, id } = this.#plan;
    if (target.kind === 'election') return;
    const attempt = this.#begin();
    let held: Held | undefined;
    try {
      await this.#acquirable(target).using(this.#options, async (hold) => {
        held = this.#granted(attempt, hold);
        try {
          await work.do(held, this.#plan.work, id);
        } finally {
          checker.settle(held);
        }
        return id;
      });
      this.#say(`released ${this.#what} after using it`);
    } catch (error) {
      if (held === undefined) return this.#failed(attempt, error);
      if (error instanceof WorkFailed) return;
      const { code, result } = error as LockkeeperError;
      this.#say(`using ${this.#what} ended: ${code}`);
      if (code !== 'lost' || result !== id) checker.report('false-error', `using ${this.#what}: ${error}`);
    }
  }

  /** Leads, and again after each term that is lost before its work is done. */
  async #leading(name: string): Promise<void> {
    const { checker } = this.#visiting;
    const { ownTtlMs, id } = this.#plan;
    const { waitTimeoutMs: _, ...options } = this.#options;
    const terms: Held[] = [];
    let attempt = this.#begin();
    let working: Promise<unknown> | undefined;
    const lead = (term: Term): Promise<string> => {
      if (working !== undefined) checker.report('terms-overlap', `${this.#what}: two terms work at once`);
      const held = this.#granted(attempt, term);
      terms.push(held);
      const work = this.#oneTerm(held, terms.length).finally(() => {
        working = undefined;
        attempt = this.#begin();
      });
      working = work;
      return work;
    };
    try {
      const election = electionOf(this.#seat.keeper, name, { ttlMs: ownTtlMs });
      const result = await election.run({ ...options, value: id }, lead);
      this.#say(`led ${this.#what}`);
      if (result !== id) checker.report('false-result', `${this.#what}: its work returned ${result}`);
    } catch (error) {
      this.#notLeading(error, terms);
    }
    await working?.catch(() => undefined);
    checker.acquiring.ended(attempt);
  }

  async #oneTerm(held: Held, number: number): Promise<string> {
    const { checker, work } = this.#visiting;
    try {
      // Else a term too short for the work would be followed by another one for ever.
      if (number <= MOST_TERMS) await work.do(held, this.#plan.work, `${this.#plan.id}.t${number}`);
      return this.#plan.id;
    } finally {
      checker.settle(held);
    }
  }

  #notLeading(error: unknown, terms: readonly Held[]): void {
    const { code, message } = error as LockkeeperError;
    this.#say(`does not lead ${this.#what} any more: ${code ?? message}`);
    const { reason } = this.#cancellation;
    const may =
      (reason !== undefined && error === reason) ||
      (error instanceof WorkFailed && terms.length > 0) ||
      (code === 'drain-timeout' && terms.at(-1)?.hold.standing === 'lost') ||
      (code === 'closed' && this.#seat.closing) ||
      code === 'limit-exceeded';
    if (!may) this.#visiting.checker.report('false-error', `leading ${this.#what}: ${error}`);
  }

  #failed(attempt: Attempt, error: unknown): void {
    const { code, lossCause, message } = error as LockkeeperError;
    this.#say(`not acquired ${this.#what}: ${code ?? message}${lossCause ? `, ${lossCause}` : ''}`);
    this.#visiting.checker.acquiring.failed(attempt, error);
  }

  #granted(attempt: Attempt, hold: AnyHold): Held {
    const held = this.#visiting.checker.granted(attempt, hold);
    this.#say(`holds ${this.#what}, token ${held.token}`);
    const { requests } = this.#visiting.checker;
    if (this.#plan.listens && hold.onReleaseRequested !== undefined) {
      requests.listens(held);
      hold.onReleaseRequested(({ reason }) => requests.heard(held, reason));
    }
    held.signal.addEventListener('abort', () => {
      const { code, lossCause, message } = held.signal.reason as LockkeeperError;
      this.#say(`is told of ${this.#what}: ${lossCause ?? code ?? message}`);
    });
    return held;
  }

  #say(what: string): void {
    const { around, process } = this.#visiting;
    around.trace?.add(process.name, what);
  }
}
