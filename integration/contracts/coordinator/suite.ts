import { randomBytes } from 'node:crypto';
import {
  type Compare,
  type Coordinator,
  type KeySpan,
  type Operation,
  prefixSpan,
  type RangeResult,
  type Txn,
  type TxnReply,
  type WatchEvent,
} from '@lockkeeper/core';
import { expect } from 'vitest';

/** One coordination service, as the contract needs it. Nobody else writes to it meanwhile. */
export interface CoordinatorWorld extends AsyncDisposable {
  /** As the coordinator describes itself: `etcd 3.5.30`, `memory`. */
  readonly version: string;
  /** A client of its own. */
  connect(): Coordinator | Promise<Coordinator>;
  /** Waits on the service's clock. */
  passTime(ms: number): Promise<void>;
  /** Compacts the history up to `revision`. */
  compact(revision: bigint): Promise<void>;
}

/** What each test works with: a client and keys of its own. */
export class CoordinatorSuite {
  #world: CoordinatorWorld | undefined;
  #connections: Coordinator[] = [];
  #current: { readonly coordinator: Coordinator; readonly prefix: string } | undefined;

  open(world: CoordinatorWorld): void {
    this.#world = world;
  }

  async close(): Promise<void> {
    await this.#world?.[Symbol.asyncDispose]();
  }

  get world(): CoordinatorWorld {
    if (this.#world === undefined) throw new Error('the world did not open');
    return this.#world;
  }

  get coordinator(): Coordinator {
    return this.#test.coordinator;
  }

  /** Of all keys of this test. */
  get prefix(): string {
    return this.#test.prefix;
  }

  get #test() {
    if (this.#current === undefined) throw new Error('only within a test');
    return this.#current;
  }

  async begin(): Promise<void> {
    const prefix = `contract-${randomBytes(6).toString('hex')}/`;
    this.#current = { coordinator: await this.connect(), prefix };
  }

  async end(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.close()));
    this.#connections = [];
    this.#current = undefined;
  }

  /** Another client, closed when the test ends. */
  readonly connect = async (): Promise<Coordinator> => {
    const connection = await this.world.connect();
    this.#connections.push(connection);
    return connection;
  };

  readonly under = (key: string): string => this.prefix + key;
  readonly all = (): Required<KeySpan> => prefixSpan(this.prefix);
  readonly commit = (...operations: Operation[]): Promise<TxnReply> => run(this.coordinator, [], operations);
  readonly keysLeft = async (): Promise<string[]> => keysOf(await this.coordinator.range(this.all()));

  readonly storeRevision = async (): Promise<bigint> => {
    return (await this.coordinator.range({ key: this.under('none') })).revision;
  };

  readonly grantLease = async (ttlMs = 60_000): Promise<bigint> => {
    const lease = randomLease();
    await this.coordinator.grant({ lease, ttlMs });
    return lease;
  };
}

export function put(key: string, value: string | Uint8Array = '', lease?: bigint): Operation {
  return lease === undefined ? { op: 'put', key, value } : { op: 'put', key, value, lease };
}

export const get = (key: string): Operation => ({ op: 'range', key });
export const remove = (key: string): Operation => ({ op: 'delete', key });
export const removeSpan = (span: KeySpan): Operation => ({ op: 'delete', ...span });
export const txnOf = (success: readonly Operation[]): Txn => ({ compare: [], success, failure: [] });
export const nested = (success: readonly Operation[]): Operation => ({ op: 'txn', ...txnOf(success) });
export const absent = (key: string): Compare => ({ key, target: 'createRevision', is: '=', to: 0n });
export const present = (key: string): Compare => ({ key, target: 'createRevision', is: '>', to: 0n });

export function run(
  coordinator: Coordinator,
  compare: readonly Compare[],
  success: readonly Operation[],
  failure: readonly Operation[] = [],
): Promise<TxnReply> {
  return coordinator.txn({ compare, success, failure });
}

/** Asymmetric, so that a Buffer is as good as any other Uint8Array. */
export function bytes(text: string): unknown {
  return expect.toSatisfy(
    (value: unknown) => value instanceof Uint8Array && Buffer.from(value).toString() === text,
  );
}

export function keysOf({ kvs }: RangeResult): string[] {
  return kvs.map(({ key }) => key);
}

export function randomLease(): bigint {
  return (randomBytes(8).readBigUInt64BE() >> 1n) | 1n;
}

export async function rejection(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    (value) =>
      expect.unreachable(
        `resolved with ${JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? `${part}` : part))}`,
      ),
    (error: unknown) => error,
  );
}

export interface WatchLog {
  /** The events of each call, as they came. */
  readonly calls: (readonly WatchEvent[])[];
  /** The next `count` events; fails if one more is known already. */
  next(count: number): Promise<WatchEvent[]>;
  readonly ended: Promise<Error>;
}

export async function startWatch(
  coordinator: Coordinator,
  span: KeySpan,
  startRevision: bigint,
): Promise<WatchLog> {
  const calls: (readonly WatchEvent[])[] = [];
  const pending: WatchEvent[] = [];
  const ended = new Promise<Error>((resolve, reject) => {
    let over = false;
    coordinator.watch(
      { ...span, startRevision },
      {
        onEvents(events) {
          if (over) reject(new Error('events after the end'));
          calls.push(events);
          pending.push(...events);
        },
        onEnd(error) {
          if (over) reject(new Error('ended twice'));
          over = true;
          resolve(error);
        },
      },
    );
  });
  return {
    calls,
    ended,
    async next(count) {
      await expect.poll(() => pending.length, { interval: 5 }).toBeGreaterThanOrEqual(count);
      expect(pending).toHaveLength(count);
      return pending.splice(0);
    },
  };
}
