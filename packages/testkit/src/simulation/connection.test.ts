import type { LockkeeperError, WatchEvent } from '@lockkeeper/core';
import { memoryStore } from '@lockkeeper/core/memory';
import { describe, expect, test } from 'vitest';
import { SimulatedConnection } from './connection.ts';
import { SimulatedEtcd } from './etcd.ts';
import { Network, type NetworkPlan } from './network.ts';
import { SimulatedProcess } from './process.ts';
import { Random } from './random.ts';
import { World } from './world.ts';

const UNDISTURBED: NetworkPlan = {
  slow: 0,
  slowestMs: 0,
  loseRequest: 0,
  loseReply: 0,
  duplicate: 0,
  reset: 0,
  refuse: 0,
};

function scene(disturbed: Partial<NetworkPlan> = {}, seed = 'connection') {
  const world = new World();
  const random = new Random(seed);
  const network = new Network(world, random.fork('network'), { ...UNDISTURBED, ...disturbed }, []);
  const etcd = new SimulatedEtcd(world, random.fork('etcd'), (clock) => memoryStore({ clock }));
  const process = new SimulatedProcess(world, 'p', random.fork('p'), 1);
  const around = { world, network, etcd, trace: undefined, onRevoke: () => {} };
  const connection = new SimulatedConnection('p', process, around);
  const run = (until: number) =>
    world.run(
      until,
      () => {},
      () => false,
    );
  return { world, network, etcd, process, connection, run };
}

const put = (key: string, value = '') => ({
  compare: [],
  success: [{ op: 'put' as const, key, value }],
  failure: [],
});

/** How a promise stands, without waiting for it. */
function follow<T>(promise: Promise<T>): { settled: T | LockkeeperError | undefined } {
  const state: { settled: T | LockkeeperError | undefined } = { settled: undefined };
  promise.then(
    (value) => {
      state.settled = value;
    },
    (error) => {
      state.settled = error;
    },
  );
  return state;
}

describe('a call', () => {
  test('that gets no answer settles at its limit as unknown, and may have been applied', async () => {
    const { connection, etcd, run } = scene({ loseReply: 1 });
    const call = follow(connection.txn(put('k'), { timeoutMs: 300 }));
    await run(290);
    expect(call.settled).toBeUndefined();
    await run(310);
    expect(call.settled).toMatchObject({ code: 'unreachable', outcome: 'unknown' });
    expect(etcd.store.range({ key: 'k' }).count).toBe(1);
    expect(connection.pendingCalls).toBe(0);
  });

  test('that was given up may still be applied later', async () => {
    const { connection, etcd, run, network } = scene({}, 'late 2');
    network.cut('p', 1_000);
    const calls = Array.from({ length: 20 }, (_, at) =>
      follow(connection.txn(put(`k${at}`), { timeoutMs: 100 })),
    );
    await run(500);
    for (const { settled } of calls) expect(settled).toMatchObject({ code: 'unreachable' });
    expect(etcd.store.range({ key: 'k', rangeEnd: 'l' }).count).toBe(0);
    await run(2_000);
    const applied = etcd.store.range({ key: 'k', rangeEnd: 'l' }).count;
    expect(applied).toBeGreaterThan(0);
    expect(applied).toBeLessThan(20);
  });

  test('waits for a server that is stopped, and is refused by one that is down', async () => {
    const { connection, etcd, run } = scene();
    etcd.stop(1_000);
    const waiting = follow(connection.txn(put('k')));
    await run(900);
    expect(waiting.settled).toBeUndefined();
    await run(1_100);
    expect(waiting.settled).toMatchObject({ succeeded: true });
    etcd.restart(1_000);
    const refused = follow(connection.txn(put('k')));
    await run(1_200);
    expect(refused.settled).toMatchObject({ code: 'unreachable' });
  });

  test('still open when the connection closes is told closed, with an unknown outcome', async () => {
    const { connection, process, run } = scene();
    const call = follow(connection.txn(put('k')));
    void connection.close();
    await run(10);
    expect(call.settled).toMatchObject({ code: 'closed', outcome: 'unknown' });
    expect(process.pendingTimers).toBe(0);
  });
});

describe('leases', () => {
  test('get their full time again by a restart and an election, not by a stop', async () => {
    for (const [outage, survives] of [
      ['restart', true],
      ['loseLeader', true],
      ['stop', false],
    ] as const) {
      const { connection, etcd, run } = scene();
      void connection.grant({ lease: 1n, ttlMs: 2_000 });
      await run(100);
      void connection.txn({ ...put('k'), success: [{ op: 'put', key: 'k', value: '', lease: 1n }] });
      await run(1_500);
      etcd[outage](3_000);
      await run(5_000);
      expect([outage, etcd.store.range({ key: 'k' }).count]).toEqual([outage, survives ? 1 : 0]);
      await run(8_000);
      expect(etcd.store.range({ key: 'k' }).count).toBe(0);
    }
  });
});

describe('a watch', () => {
  test('over streams that break again and again tells every event once, in order', async () => {
    const { world, connection, etcd, run } = scene();
    const told: WatchEvent[] = [];
    const ended: Error[] = [];
    connection.watch(
      { key: 'k', rangeEnd: 'l', startRevision: 1n },
      { onEvents: (events) => told.push(...events), onEnd: (error) => ended.push(error) },
    );
    for (let at = 0; at < 200; at += 1) {
      world.at(at * 20, () => void etcd.store.txn(put('k', String(at))));
      if (at % 3 === 0) world.at(at * 20 + 7, () => connection.breakWatches());
    }
    world.at(1_000, () => etcd.restart(300));
    await run(20_000);
    const values = told.map((event) => event.type === 'put' && new TextDecoder().decode(event.kv.value));
    expect(values).toEqual(Array.from({ length: 200 }, (_, at) => String(at)));
    expect(ended).toEqual([]);
  });

  test('whose history was compacted away while its stream was broken ends, once', async () => {
    const { connection, etcd, run } = scene();
    const ended: Error[] = [];
    connection.watch(
      { key: 'k', startRevision: 1n },
      { onEvents: () => {}, onEnd: (error) => ended.push(error) },
    );
    await run(100);
    for (let at = 0; at < 5; at += 1) etcd.store.txn(put('other'));
    connection.breakWatches();
    etcd.compact(0);
    await run(1_000);
    connection.breakWatches();
    await run(2_000);
    expect(ended).toMatchObject([{ code: 'compacted' }]);
    expect(connection.openWatches).toBe(0);
  });
});
