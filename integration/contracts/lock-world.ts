import { randomUUID } from 'node:crypto';
import { type ConnectOptions, type Coordinator, connect, type Keeper } from '@lockkeeper/core';
import { FaultyCoordinator } from '@lockkeeper/testkit';

/** Where a contract suite runs: an etcd or a memory store, and how time passes there. */
export interface CoordinatorWorld extends AsyncDisposable {
  /** A new client of the same etcd or store. */
  client(): Coordinator;
  passTime(ms: number): Promise<void>;
}

type KeeperOptions = Pick<ConnectOptions, 'ttlMs' | 'marginMs' | 'namespace' | 'identity'>;

/** A world with a namespace of its own, and keepers that are closed with it. */
export class LockWorld implements AsyncDisposable {
  readonly namespace: string = `test-${randomUUID()}`;
  readonly raw: Coordinator;
  readonly #world: CoordinatorWorld;
  readonly #keepers: Keeper[] = [];

  constructor(world: CoordinatorWorld) {
    this.#world = world;
    this.raw = world.client();
  }

  async keeper(options: KeeperOptions = {}): Promise<Keeper> {
    return (await this.faulty(options)).keeper;
  }

  /** A keeper with a connection that the test can spoil. */
  async faulty(options: KeeperOptions = {}): Promise<{ keeper: Keeper; connection: FaultyCoordinator }> {
    const connection = new FaultyCoordinator(this.#world.client());
    const keeper = await connect({
      coordinator: connection,
      namespace: this.namespace,
      ttlMs: 5_000,
      ...options,
    });
    this.#keepers.push(keeper);
    return { keeper, connection };
  }

  passTime(ms: number): Promise<void> {
    return this.#world.passTime(ms);
  }

  /**
   * Waits for an observed fact; fails when it does not come about within that much of the world's time, counted in
   * looks: a process that is not scheduled for a second does not look.
   */
  async until(fact: string, holds: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<void> {
    for (let waited = 0; ; waited += 20) {
      if (await holds()) return;
      if (waited >= withinMs) throw new Error(`not within ${withinMs} ms: ${fact}`);
      await this.passTime(20);
    }
  }

  /** The keys of a lock's queue, first come first. */
  async queue(name: string): Promise<string[]> {
    const key = `${this.namespace}/lock/${name}/`;
    const { kvs } = await this.raw.range({
      key,
      rangeEnd: `${this.namespace}/lock/${name}0`,
      sort: { by: 'createRevision', order: 'ascend' },
    });
    return kvs.map((kv) => kv.key.slice(key.length));
  }

  async queueLength(name: string): Promise<number> {
    return (await this.queue(name)).length;
  }

  /** The leases that hold keys of the namespace. */
  async leaseOf(name: string, place: number): Promise<bigint> {
    const { kvs } = await this.raw.range({
      key: `${this.namespace}/lock/${name}/`,
      rangeEnd: `${this.namespace}/lock/${name}0`,
      sort: { by: 'createRevision', order: 'ascend' },
    });
    const lease = kvs[place]?.lease;
    if (lease === undefined) throw new Error(`nobody at place ${place} of lock ${name}`);
    return lease;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Time goes on while they close: a keeper that waits for something must not hang a virtual world.
    let open = this.#keepers.length;
    for (const keeper of this.#keepers) void keeper.close().finally(() => (open -= 1));
    while (open > 0) await this.passTime(50);
    await this.raw.close();
    await this.#world[Symbol.asyncDispose]();
  }
}

/** Makes a world that is taken down when the test ends; concurrent tests pass their own `onTestFinished`. */
export type MakeLockWorld = (whenFinished?: (takeDown: () => Promise<void>) => void) => Promise<LockWorld>;
