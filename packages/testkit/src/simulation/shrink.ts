import type { ClientPlan, Plan, Visit } from './plan.ts';
import { type Simulation, type Subject, simulate } from './simulate.ts';

export interface ShrinkOptions {
  /** How many plans to try at most. Default 400. */
  readonly tries?: number;
}

export interface Shrunk {
  readonly plan: Plan;
  /** Of the shrunk plan, with its trace. */
  readonly simulation: Simulation;
  readonly tries: number;
}

/**
 * Looks for a smaller plan that breaks the same promise, by leaving out whatever can be left out: clients,
 * faults, visits, steps of work, disturbances of single messages. The result is not the smallest there is,
 * only one from which no single part can go. The same plan always shrinks to the same.
 */
export async function shrink(plan: Plan, subject: Subject, options: ShrinkOptions = {}): Promise<Shrunk> {
  const { violation, disturbed } = await simulate(plan, subject);
  if (violation === undefined)
    throw new RangeError(`seed ${plan.seed}: nothing to shrink, it finds no violation`);
  const shrinking = new Shrinking(plan, disturbed, subject, violation.kind, options.tries ?? 400);
  await shrinking.run();
  const simulation = await simulate(shrinking.plan, subject, { trace: true });
  return { plan: shrinking.plan, simulation, tries: shrinking.tries };
}

class Shrinking {
  plan: Plan;
  tries = 0;
  readonly #subject: Subject;
  readonly #kind: string;
  readonly #limit: number;
  #disturbed: readonly string[];

  constructor(plan: Plan, disturbed: readonly string[], subject: Subject, kind: string, limit: number) {
    this.plan = plan;
    this.#disturbed = disturbed;
    this.#subject = subject;
    this.#kind = kind;
    this.#limit = limit;
  }

  async run(): Promise<void> {
    let before: string;
    do {
      before = JSON.stringify(this.plan);
      await this.#leaveOut(this.plan.clients, (clients) => ({ ...this.plan, clients }));
      await this.#leaveOut(this.plan.faults, (faults) => ({ ...this.plan, faults }));
      await this.#leaveOutVisits();
      await this.#leaveOutOnlookers();
      await this.#spareMessages();
      await this.#simplifyClients();
    } while (before !== JSON.stringify(this.plan) && this.tries < this.#limit);
  }

  /** Takes the plan over if it breaks the same promise. */
  async #try(plan: Plan): Promise<boolean> {
    if (this.tries >= this.#limit) return false;
    this.tries += 1;
    const { violation, disturbed } = await simulate(plan, this.#subject);
    if (violation?.kind !== this.#kind) return false;
    this.plan = plan;
    this.#disturbed = disturbed;
    return true;
  }

  /** In halves first, then in ever smaller pieces. Returns what could not be left out. */
  async #leaveOut<T>(parts: readonly T[], planWith: (parts: readonly T[]) => Plan): Promise<void> {
    let left = parts;
    for (let size = Math.ceil(left.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let at = 0; at < left.length; ) {
        const fewer = [...left.slice(0, at), ...left.slice(at + size)];
        if (await this.#try(planWith(fewer))) left = fewer;
        else at += size;
      }
    }
  }

  async #leaveOutVisits(): Promise<void> {
    const all = this.plan.clients.flatMap(({ workers }) => workers.flat());
    await this.#leaveOut(all, (visits) => {
      const kept = new Set(visits.map(({ id }) => id));
      return this.#withVisits((visit) => (kept.has(visit.id) ? visit : undefined));
    });
  }

  async #leaveOutOnlookers(): Promise<void> {
    for (const client of this.plan.clients) {
      await this.#leaveOut(client.onlookers, (onlookers) => this.#withClient({ ...client, onlookers }));
    }
  }

  /** Nothing befalls these messages. */
  async #spareMessages(): Promise<void> {
    await this.#leaveOut(this.#disturbed, (disturbed) => {
      const kept = new Set(disturbed);
      return {
        ...this.plan,
        spared: [...new Set([...this.plan.spared, ...this.#disturbed.filter((id) => !kept.has(id))])],
      };
    });
  }

  async #simplifyClients(): Promise<void> {
    for (const client of this.plan.clients) {
      if (client.clockRate !== 1) await this.#try(this.#withClient({ ...client, clockRate: 1 }));
    }
    for (const { id } of this.plan.clients.flatMap(({ workers }) => workers.flat())) {
      const simpler = (change: (visit: Visit) => Visit) =>
        this.#try(this.#withVisits((visit) => (visit.id === id ? change(visit) : visit)));
      await simpler((visit) => ({ ...visit, work: [] }));
      const visit = this.#visit(id);
      if (visit === undefined) continue;
      if (visit.work.length > 1) {
        await this.#leaveOut(visit.work, (work) =>
          this.#withVisits((other) => (other.id === id ? { ...other, work } : other)),
        );
      }
      if (visit.claims) await simpler((other) => ({ ...other, claims: false }));
      if (visit.abortAfterMs !== undefined) await simpler((other) => ({ ...other, abortAfterMs: undefined }));
      if (visit.waitTimeoutMs !== undefined)
        await simpler((other) => ({ ...other, waitTimeoutMs: undefined }));
      if (visit.ownTtlMs !== undefined) await simpler((other) => ({ ...other, ownTtlMs: undefined }));
      if (visit.minHoldMs > 0) await simpler((other) => ({ ...other, minHoldMs: 0 }));
      if (visit.maxHoldMs !== undefined) await simpler((other) => ({ ...other, maxHoldMs: undefined }));
      if (visit.end !== 'release') await simpler((other) => ({ ...other, end: 'release' }));
    }
  }

  #visit(id: string): Visit | undefined {
    return this.plan.clients.flatMap(({ workers }) => workers.flat()).find((visit) => visit.id === id);
  }

  #withClient(changed: ClientPlan): Plan {
    const clients = this.plan.clients.map((client) => (client.name === changed.name ? changed : client));
    return { ...this.plan, clients };
  }

  #withVisits(change: (visit: Visit) => Visit | undefined): Plan {
    const clients = this.plan.clients.map((client) => ({
      ...client,
      workers: client.workers.map((visits) => visits.map(change).filter((visit) => visit !== undefined)),
    }));
    return { ...this.plan, clients };
  }
}
