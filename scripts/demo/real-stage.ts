// One scene on real servers: orders to the processes, and the interference with A.
import type { Coordinator } from '@lockkeeper/core';
import type { Fault, HeldChunk, LoggedMessage, Pause, TcpProxy } from '@lockkeeper/testkit';
import type { AccountState, AccountTable } from './account.ts';
import type { Entry } from './add-entry.ts';
import { type QueueWatch, watchQueue } from './watch-queue.ts';
import { BEFORE_WRITE, type DemoWorker, type Message, type Order } from './worker-orders.ts';
import type { RecordFact, Scene, Stage } from './world.ts';

/** Longer than a worker waits for the lock, and then for what follows. */
const DONE_WITHIN_MS = 60_000;

/** What stands between A and the servers. */
export interface Network {
  readonly etcd: TcpProxy;
  readonly postgres: TcpProxy;
}

export interface Troupe {
  readonly a: DemoWorker;
  readonly b: DemoWorker;
  readonly network: Network;
  readonly coordinator: Coordinator;
  readonly namespace: string;
  readonly accounts: AccountTable;
}

interface Outage {
  readonly write: HeldChunk;
  readonly renewals: Fault;
}

export class RealStage implements Stage {
  readonly #troupe: Troupe;
  readonly #scene: Scene;
  readonly #record: RecordFact;
  readonly #queue: QueueWatch;
  #a: Promise<void> | undefined;
  #pause: Pause | undefined;
  #outage: Outage | undefined;
  #failure: string | undefined;

  static async open(troupe: Troupe, scene: Scene, record: RecordFact): Promise<Stage> {
    await troupe.accounts.open(scene.name);
    const queue = await watchQueue(troupe.coordinator, troupe.namespace, scene.name, record);
    return new RealStage(troupe, scene, record, queue);
  }

  private constructor(troupe: Troupe, scene: Scene, record: RecordFact, queue: QueueWatch) {
    this.#troupe = troupe;
    this.#scene = scene;
    this.#record = record;
    this.#queue = queue;
  }

  async startA(entry: Entry): Promise<void> {
    const { a } = this.#troupe;
    // Its first attempt pauses once it has checked; nothing is sent to a storage in between.
    const stopped = this.#scene.hindrance === 'pause';
    this.#pause = a.pauseAt(BEFORE_WRITE, { how: stopped ? 'sigstop' : 'wait' });
    this.#a = this.#order(a, entry);
    const hindered = stopped ? this.#freeze(this.#pause) : this.#stallNetwork(this.#pause);
    const tooEarly = this.#a.then(() => {
      throw new Error(`A was done before anything could interfere: ${this.#failure ?? 'it did not say why'}`);
    });
    await Promise.race([hindered, tooEarly]);
  }

  async runB(entry: Entry): Promise<void> {
    await this.#order(this.#troupe.b, entry);
    await this.#queue.firstRemoved;
  }

  async letAGoOn(): Promise<void> {
    if (this.#outage === undefined) {
      this.#record({ who: 'A', kind: 'woken' });
      await this.#pause?.resume();
    } else {
      this.#record({ who: 'network', kind: 'restored' });
      this.#outage.renewals.restore();
      await this.#outage.write.release();
    }
    await this.#a;
  }

  readAccount(): Promise<AccountState> {
    return this.#troupe.accounts.account(this.#scene.name, undefined).read();
  }

  async close(): Promise<void> {
    this.#queue.close();
    this.#outage?.renewals.restore();
    await this.#outage?.write.release();
  }

  async #freeze(pause: Pause): Promise<void> {
    await pause.reached();
    this.#record({ who: 'A', kind: 'stopped' });
  }

  /**
   * Holds A's write at its first packet, so that nothing of it has reached PostgreSQL, and everything that A
   * sends to etcd.
   */
  async #stallNetwork(pause: Pause): Promise<void> {
    const { network } = this.#troupe;
    await pause.reached();
    const write = network.postgres.hold({ direction: 'request' });
    const renewals = network.etcd.blackhole();
    this.#outage = { write, renewals };
    this.#record({ who: 'network', kind: 'stalled' });
    await pause.resume();
    await write.held;
    this.#record({ who: 'network', kind: 'held' });
  }

  /** Resolves when the worker says that it is done; records what it reports until then. */
  #order(worker: DemoWorker, entry: Entry): Promise<void> {
    const { name, guarded } = this.#scene;
    const order: Order = { account: name, entry, guarded };
    const listening = worker.onMessage((logged) => this.#hear(logged));
    worker.send({ type: 'add-entry', order });
    const done = worker.next('done', { timeoutMs: DONE_WITHIN_MS }).then(() => {});
    // It is awaited later; until then its failure is nobody's.
    done.catch(() => {}).finally(() => listening[Symbol.dispose]());
    return done;
  }

  #hear({ atMs, message }: LoggedMessage<Message>): void {
    if (message.type !== 'fact') return;
    const { fact } = message;
    if (fact.kind === 'failed') this.#failure = fact.message;
    this.#record(fact, atMs);
  }
}
