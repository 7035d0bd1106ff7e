// The story in one process on a virtual clock: two keepers on one store in memory. A pause is simulated by not
// running A's timers and events, an outage by holding back what A sends.
import { connect, type Keeper, type Lock } from '@lockkeeper/core';
import { type MemoryStore, memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import type { Guard } from '@lockkeeper/fencing';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { type Account, type AccountState, OPENING } from './account.ts';
import { addEntry, type Entry } from './add-entry.ts';
import type { CleanUps } from './clean-ups.ts';
import { behindGates, Gate, type Gates, guardBehind, StoppableClock } from './hindrance.ts';
import type { WorkerName } from './story.ts';
import { type QueueWatch, watchQueue } from './watch-queue.ts';
import type { RecordFact, Scene, Stage, World } from './world.ts';

const TTL_MS = 3_000;
const NAMESPACE = 'lockkeeper-demo';

export async function simulatedWorld(cleanUps: CleanUps): Promise<World> {
  const clock = new VirtualClock();
  const store = memoryStore({ clock });
  const gates: Gates = { process: new Gate(), network: new Gate() };
  const ofA = behindGates(memoryCoordinator({ store }), new StoppableClock(clock, gates.process), gates);
  const common = { namespace: NAMESPACE, ttlMs: TTL_MS };
  const a = await connect({ ...common, coordinator: ofA, identity: 'A' });
  cleanUps.add('closing A', () => a.close());
  const b = await connect({ ...common, coordinator: memoryCoordinator({ store }), identity: 'B' });
  cleanUps.add('closing B', () => b.close());
  const troupe: Troupe = { a, b, gates, clock, store };
  return {
    simulated: true,
    coordinator: await b.coordinator.describe(),
    storage: 'memory',
    names: { coordinator: 'coordinator', storage: 'storage' },
    ttlMs: TTL_MS,
    cast: 'A and B are two clients in one process, and the time is virtual.',
    now: () => clock.wallTime(),
    open: (scene, record) => SimulatedStage.open(troupe, scene, record),
    close: () => cleanUps.run(),
  };
}

interface Troupe {
  readonly a: Keeper;
  readonly b: Keeper;
  readonly gates: Gates;
  readonly clock: VirtualClock;
  readonly store: MemoryStore;
}

class SimulatedStage implements Stage {
  readonly #troupe: Troupe;
  readonly #scene: Scene;
  readonly #record: RecordFact;
  readonly #queue: QueueWatch;
  readonly #guard: Guard<undefined> | undefined;
  #state: AccountState = OPENING;
  #a: Promise<void> | undefined;
  #restored = false;

  static async open(troupe: Troupe, scene: Scene, record: RecordFact): Promise<Stage> {
    const observer = memoryCoordinator({ store: troupe.store });
    return new SimulatedStage(
      troupe,
      scene,
      record,
      await watchQueue(observer, NAMESPACE, scene.name, record),
    );
  }

  private constructor(troupe: Troupe, scene: Scene, record: RecordFact, queue: QueueWatch) {
    this.#troupe = troupe;
    this.#scene = scene;
    this.#record = record;
    this.#queue = queue;
    this.#guard = scene.guarded ? memoryGuard({ resource: scene.name }) : undefined;
  }

  async startA(entry: Entry): Promise<void> {
    const { a, gates, clock } = this.#troupe;
    const arrived = () => this.#throughNetwork();
    const guard = this.#guard && guardBehind(this.#guard, arrived);
    this.#a = this.#add('A', a.lock(this.#scene.name), entry, this.#account(guard, arrived), async () => {
      if (this.#scene.hindrance === 'pause') {
        gates.process.shut();
        this.#record({ who: 'A', kind: 'stopped' });
        await gates.process.passed();
      } else {
        gates.network.shut();
        this.#record({ who: 'network', kind: 'stalled' });
      }
    });
    // Lets A run until only time moves it on.
    await clock.advance(0);
  }

  async runB(entry: Entry): Promise<void> {
    const account = this.#account(this.#guard, async () => {});
    const lock = this.#troupe.b.lock(this.#scene.name);
    await this.#untilSettled(this.#add('B', lock, entry, account, async () => {}));
    await this.#untilSettled(this.#queue.firstRemoved);
  }

  async letAGoOn(): Promise<void> {
    const { process, network } = this.#troupe.gates;
    if (process.isShut) {
      this.#record({ who: 'A', kind: 'woken' });
      await process.open();
    } else {
      this.#restored = true;
      this.#record({ who: 'network', kind: 'restored' });
      await network.open();
    }
    if (this.#a !== undefined) await this.#untilSettled(this.#a);
  }

  async readAccount(): Promise<AccountState> {
    return this.#state;
  }

  async close(): Promise<void> {
    this.#queue.close();
    await this.#troupe.gates.process.open();
    await this.#troupe.gates.network.open();
  }

  #account(guard: Guard<undefined> | undefined, arrived: () => Promise<void>): Account<undefined> {
    return {
      direct: undefined,
      guard,
      read: async () => {
        await arrived();
        return this.#state;
      },
      write: async (next) => {
        // Under a guard it has arrived with the call of the guard.
        if (guard === undefined) await arrived();
        this.#state = next;
      },
    };
  }

  async #throughNetwork(): Promise<void> {
    const { network } = this.#troupe.gates;
    if (network.isShut && !this.#restored) this.#record({ who: 'network', kind: 'held' });
    await network.passed();
  }

  #add(
    who: WorkerName,
    lock: Lock,
    entry: Entry,
    account: Account<undefined>,
    beforeWrite: () => Promise<void>,
  ): Promise<void> {
    return addEntry(entry, { who, lock, account, beforeWrite, report: this.#record });
  }

  /** Moves the time on until `work` is done; what it fails with is the caller's. */
  async #untilSettled(work: Promise<void>): Promise<void> {
    let settled = false;
    const mark = () => {
      settled = true;
    };
    work.then(mark, mark);
    const { clock } = this.#troupe;
    await clock.advance(0);
    for (const giveUpAt = clock.now() + 20 * TTL_MS; !settled && clock.now() < giveUpAt; ) {
      await clock.advance(100);
    }
    if (!settled) throw new Error(`the simulation stands still after ${clock.now()} ms`);
    await work;
  }
}
