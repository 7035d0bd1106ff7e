import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Compare,
  type Coordinator,
  connect,
  etcdCoordinator,
  type Hold,
  type Txn,
} from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { FaultyCoordinator, startEtcd } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';

/*
 * The life of one lock as a sequence of transitions, each at its moment, on one clock.
 *
 * Lock and data live in one store here, so that expiry, generation and holder are checked together with
 * every write. That is the contract of a co-located store, and it is stronger than that of a separate
 * guard, which only remembers the highest token and cannot know that a lease has just run out.
 *
 * A serial model with one clock shows that the transitions are right. It shows nothing about consensus,
 * durability, real clocks or concurrency.
 */

const DATA = 'data/account';

interface Grant {
  readonly key: string;
  readonly lease: bigint;
  readonly token: bigint;
}

/** The bare transitions on the port: no renewal by itself, no margin. */
class Model {
  readonly #coordinator: Coordinator;
  #nextLease = 1n;

  constructor(coordinator: Coordinator) {
    this.#coordinator = coordinator;
  }

  async acquire(client: string, ttlMs: number): Promise<Grant | undefined> {
    const lease = this.#nextLease++;
    await this.#coordinator.grant({ lease, ttlMs });
    const key = `lock/account/${client}`;
    const reply = await this.#coordinator.txn({
      compare: [
        { key: 'lock/account/', rangeEnd: 'lock/account0', target: 'createRevision', is: '=', to: 0n },
      ],
      success: [{ op: 'put', key, value: client, lease }],
      failure: [{ op: 'range', key }],
    });
    if (reply.succeeded) return { key, lease, token: reply.revision };
    await this.#coordinator.revoke(lease);
    return undefined;
  }

  async write(grant: Grant, value: string): Promise<boolean> {
    return (await this.#coordinator.txn(guarded(this.#own(grant), value))).succeeded;
  }

  async renew(grant: Grant): Promise<boolean> {
    return (await this.#coordinator.renew(grant.lease)).ttlMs > 0;
  }

  async release(grant: Grant): Promise<boolean> {
    const { key, lease } = grant;
    const released = await this.#coordinator.txn({
      compare: this.#own(grant),
      success: [{ op: 'delete', key }],
      failure: [{ op: 'range', key }],
    });
    if (released.succeeded) await this.#coordinator.revoke(lease);
    return released.succeeded;
  }

  data(): Promise<string | undefined> {
    return readData(this.#coordinator, DATA);
  }

  #own({ key, token }: Grant): Compare[] {
    return [{ key, target: 'modRevision', is: '=', to: token }];
  }
}

function guarded(compare: readonly Compare[], value: string, key = DATA): Txn {
  return { compare, success: [{ op: 'put', key, value }], failure: [{ op: 'range', key }] };
}

async function readData(coordinator: Coordinator, key: string): Promise<string | undefined> {
  const { kvs } = await coordinator.range({ key });
  return kvs[0] && new TextDecoder().decode(kvs[0].value);
}

function granted<T>(grant: T | undefined): T {
  if (grant === undefined) throw new Error('expected the lock to be granted');
  return grant;
}

describe('the sequential model', () => {
  it('on memory, with a manual clock and no margin', async () => {
    const clock = new VirtualClock();
    const model = new Model(memoryCoordinator({ store: memoryStore({ clock }) }));
    const at = (second: number) => clock.advanceTo(second * 1_000);

    const a = granted(await model.acquire('A', 5_000));
    await at(2);
    expect(await model.write(a, 'A at 2')).toBe(true);
    await at(4);
    expect(await model.renew(a)).toBe(true);
    await at(8);
    expect(await model.write(a, 'A at 8')).toBe(true);

    // At exactly 9 the renewed lease is over: equality is expired.
    await at(9);
    expect(await model.write(a, 'A at 9')).toBe(false);
    expect(await model.renew(a)).toBe(false);
    expect(await model.data()).toBe('A at 8');

    await at(10);
    const b = granted(await model.acquire('B', 5_000));
    expect(b.token).toBeGreaterThan(a.token);
    expect(await model.write(b, 'B at 10')).toBe(true);
    expect(await model.write(a, 'A, late')).toBe(false);
    expect(await model.write({ ...a, key: b.key }, "A's token under B's name")).toBe(false);
    expect(await model.acquire('C', 5_000)).toBeUndefined();
    expect(await model.release(a)).toBe(false);
    expect(await model.release({ ...a, key: b.key })).toBe(false);
    expect(await model.write(b, 'B, still')).toBe(true);

    await at(12);
    expect(await model.release(b)).toBe(true);
    await at(13);
    const again = granted(await model.acquire('B', 5_000));
    expect(again.token).toBeGreaterThan(b.token);
    expect(await model.release(b)).toBe(false);
    expect(await model.renew(b)).toBe(false);
    expect(await model.write(b, 'B, by its earlier token')).toBe(false);
    expect(await model.write(again, 'B at 13')).toBe(true);
    expect(await model.release(again)).toBe(true);

    await at(14);
    const c = granted(await model.acquire('C', 5_000));
    expect(c.token).toBeGreaterThan(again.token);
    await at(15);
    expect(await model.write(c, 'C at 15')).toBe(true);
    expect(await model.data()).toBe('C at 15');
  });

  it.each([0, -1, Number.NaN])('a time-to-live of %s is refused, at the port and above it', async (ttlMs) => {
    const coordinator = memoryCoordinator({ store: memoryStore({ clock: new VirtualClock() }) });
    await expect(coordinator.grant({ lease: 1n, ttlMs })).rejects.toThrow(/ttlMs/);
    await expect(connect({ coordinator, ttlMs })).rejects.toMatchObject({ code: 'invalid-option' });
  });

  it('the manual clock does not step back', async () => {
    const clock = new VirtualClock();
    await clock.advanceTo(1_000);
    await expect(clock.advanceTo(999)).rejects.toThrow(RangeError);
    await expect(clock.advance(-1)).rejects.toThrow(RangeError);
    expect(clock.now()).toBe(1_000);
  });

  it('on real etcd, through hold.compare()', async () => {
    await using etcd = await startEtcd();
    const namespace = randomUUID();
    const data = `${namespace}-account`;
    const connection = new FaultyCoordinator(etcdCoordinator({ hosts: etcd.endpoint }));
    await using keeperA = await connect({ coordinator: connection, namespace, ttlMs: 4_000 });
    await using keeperB = await connect({ hosts: etcd.endpoint, namespace });
    await using keeperC = await connect({ hosts: etcd.endpoint, namespace });
    await using raw = etcdCoordinator({ hosts: etcd.endpoint });
    const write = async (hold: Hold, value: string) =>
      (await raw.txn(guarded(hold.compare(), value, data))).succeeded;

    const a = await keeperA.lock('account').acquire();
    expect(await write(a, 'A')).toBe(true);
    await sleep(1.5 * a.ttlMs);
    expect(await write(a, 'A, renewed')).toBe(true);

    connection.goSilent();
    const b = await keeperB.lock('account').acquire();
    expect(a.standing).toBe('lost');
    expect(b.token.revision).toBeGreaterThan(a.token.revision);
    expect(await write(a, 'A, late')).toBe(false);
    expect(await readData(raw, data)).toBe('A, renewed');
    expect(await write(b, 'B')).toBe(true);
    expect((await keeperC.lock('account').tryAcquire()).hold).toBeUndefined();
    connection.heal();
    expect(await a.release()).toMatchObject({ outcome: 'already-lost' });
    expect(await write(b, 'B, still')).toBe(true);

    await b.release();
    const again = await keeperB.lock('account').acquire();
    expect(again.token.revision).toBeGreaterThan(b.token.revision);
    await b.release();
    expect(await write(b, 'B, by its earlier token')).toBe(false);
    expect(await write(again, 'B again')).toBe(true);
    await again.release();

    const c = await keeperC.lock('account').acquire();
    expect(c.token.revision).toBeGreaterThan(again.token.revision);
    expect(await write(c, 'C')).toBe(true);
    expect(await readData(raw, data)).toBe('C');
  });
});
