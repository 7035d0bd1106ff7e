import type { connect } from '@lockkeeper/core';
import type { memoryStore } from '@lockkeeper/core/memory';
import { Checker, type Violation } from './checker.ts';
import { SimulatedClient } from './client.ts';
import type { Surroundings } from './connection.ts';
import { SimulatedEtcd } from './etcd.ts';
import { befall, type Stage } from './faults.ts';
import { Network } from './network.ts';
import { Observer } from './observer.ts';
import { isCalm, lockDelayOf, type Plan } from './plan.ts';
import { SimulatedProcess } from './process.ts';
import { Random } from './random.ts';
import { SimulatedStorage } from './storage.ts';
import { describeTarget } from './target.ts';
import { Trace } from './trace.ts';
import { World } from './world.ts';

/** The code that is put to the test: this repository's, or a changed copy of it. */
export interface Subject {
  readonly connect: typeof connect;
  readonly memoryStore: typeof memoryStore;
}

export interface SimulateOptions {
  /** Whether to keep a trace. Default `false`: it costs time and changes nothing. */
  readonly trace?: boolean;
}

export interface Simulation {
  readonly violation: Violation | undefined;
  /** Empty without `trace`. */
  readonly trace: readonly string[];
  readonly steps: number;
  readonly simulatedMs: number;
  readonly grants: number;
  readonly losses: number;
  /** Names of messages that something befell. */
  readonly disturbed: readonly string[];
}

/** How long everybody may take to come to an end once nothing is disturbed any more. */
const PATIENCE_MS = 180_000;
const IDLE_MS = 20_000;
const CLOSING_MS = 30_000;
/** Longer than any lease lasts. */
const EXPIRY_MS = 12_000;

/** Plays a plan to its end, or to the first violation. The same plan gives the same result, always. */
export async function simulate(
  plan: Plan,
  subject: Subject,
  options: SimulateOptions = {},
): Promise<Simulation> {
  const simulation = new OneSimulation(plan, subject, options.trace ?? false);
  const onUnhandled = (error: unknown) => {
    simulation.checker.report(
      'unhandled-rejection',
      error instanceof Error ? (error.stack ?? error.message) : String(error),
    );
  };
  process.on('unhandledRejection', onUnhandled);
  using _ = simulation.checker.sessions.listen();
  try {
    await simulation.play();
  } finally {
    process.off('unhandledRejection', onUnhandled);
  }
  return simulation.result();
}

class OneSimulation {
  readonly checker: Checker;
  readonly #plan: Plan;
  readonly #world = new World();
  readonly #stage: Stage;
  readonly #etcd: SimulatedEtcd;
  readonly #observer: Observer;

  constructor(plan: Plan, subject: Subject, traced: boolean) {
    this.#plan = plan;
    const world = this.#world;
    const random = new Random(`world/${plan.seed}`);
    const network = new Network(world, random.fork('network'), plan.network, plan.spared);
    const etcd = new SimulatedEtcd(world, random.fork('etcd'), (clock) => subject.memoryStore({ clock }));
    const trace = traced ? new Trace(world) : undefined;
    const observer = new Observer(etcd, world);
    const checker = new Checker(world, etcd, observer, isCalm(plan), lockDelayOf(plan));
    const around: Surroundings = {
      world,
      network,
      etcd,
      trace,
      onRevoke: (lease, by) => checker.holding.onRevoked(lease, by),
    };
    const storage = new SimulatedStorage(around, checker, plan.requireClaim);
    const clients = new Map<string, SimulatedClient>();
    for (const client of plan.clients) {
      const process = new SimulatedProcess(world, client.name, random.fork(client.name), client.clockRate);
      process.onResume = () => {
        trace?.add(client.name, 'goes on');
        // Sometimes the code that was interrupted looks at its hold first, sometimes it does not.
        if (process.random() < 0.5) checker.holding.lookBy(process);
      };
      clients.set(
        client.name,
        new SimulatedClient({ plan: client, process, around, storage, checker, connect: subject.connect }),
      );
    }
    this.checker = checker;
    this.#etcd = etcd;
    this.#observer = observer;
    this.#stage = { around, clients, observer, storage, faultsUntilMs: plan.faultsUntilMs };
  }

  async play(): Promise<void> {
    const { faults, faultsUntilMs } = this.#plan;
    for (const fault of faults) this.#world.at(fault.at, () => befall(fault, this.#stage));
    this.#world.at(faultsUntilMs, () => this.#heal());
    const clients = [...this.#stage.clients.values()];
    const allDone = () => this.#world.now > faultsUntilMs && clients.every(({ isDone }) => isDone);
    if (!(await this.#run(faultsUntilMs + PATIENCE_MS, allDone))) {
      const [stuck] = this.checker.acquiring.unfinished;
      const what =
        stuck === undefined
          ? 'something'
          : `${stuck.process.name} ${stuck.visit.how} ${describeTarget(stuck.visit.target)} (${stuck.visit.id})`;
      this.checker.report(
        'stuck',
        `${what} has not come to an end ${PATIENCE_MS} ms after the faults stopped`,
      );
    }
    await this.#idle(IDLE_MS);
    this.checker.nothingQueued();
    await this.#close(clients.filter(({ process }) => !process.isDead));
    await this.#idle(EXPIRY_MS);
    this.checker.nothingLeft();
  }

  result(): Simulation {
    const { granted, lost } = this.checker.holding;
    const { trace, network } = this.#stage.around;
    return {
      violation: this.checker.violation,
      trace: trace?.toLines() ?? [],
      steps: this.#world.steps,
      simulatedMs: this.#world.now,
      grants: granted,
      losses: lost,
      disturbed: network.disturbed,
    };
  }

  #heal(): void {
    const { network, trace } = this.#stage.around;
    network.heal();
    this.checker.healed();
    trace?.add('fault', 'none from here on');
    this.#cleanUp();
  }

  /** The operator removes keys that were overwritten and whose session is gone: nobody else can. */
  #cleanUp(): void {
    for (const { key, spoilt, lease } of [...this.#observer.contenders.values()]) {
      if (!spoilt || this.#etcd.isAlive(lease)) continue;
      this.#etcd.outside('outside', (store) =>
        store.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] }),
      );
    }
    this.#world.after(1_000, () => this.#cleanUp());
  }

  async #close(clients: readonly SimulatedClient[]): Promise<void> {
    let open = clients.length;
    for (const client of clients) {
      void client.close().then(() => {
        open -= 1;
      });
    }
    if (!(await this.#run(this.#world.now + CLOSING_MS, () => open === 0))) {
      this.checker.report('stuck', `${open} keepers were not closed within ${CLOSING_MS} ms`);
    }
  }

  async #idle(ms: number): Promise<void> {
    await this.#run(this.#world.now + ms, () => false);
  }

  /** Returns whether it was over in time, or something was found. */
  async #run(limit: number, isOver: () => boolean): Promise<boolean> {
    const { checker } = this;
    const stop = () => checker.violation !== undefined || isOver();
    return this.#world.run(limit, () => checker.look(), stop);
  }
}
