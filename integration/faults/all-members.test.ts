import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Hold } from '@lockkeeper/core';
import { type EtcdCluster, startEtcdCluster, startTcpProxy } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ownTime } from '../support/own-time.ts';
import { outlast } from './outlast.ts';
import { LossLog } from './support.ts';

/** When all of etcd is out of reach, every loss is declared before anybody else holds the lock. */

const TTL_MS = 2_000;

let cluster: EtcdCluster;
beforeAll(async () => {
  cluster = await startEtcdCluster({ version: 'newest' });
});
afterAll(() => cluster.stop());

describe('B2: all ways to etcd swallow everything, without a sign', () => {
  it('each hold is lost before its TTL is over, and before the one who waits for it is granted', async () => {
    const namespace = randomUUID();
    const proxies = await Promise.all(cluster.endpoints.map((endpoint) => startTcpProxy(endpoint)));
    await using keeper = await connect({ hosts: proxies.map(({ url }) => url), namespace, ttlMs: TTL_MS });
    await using rival = await connect({ hosts: cluster.endpoints, namespace });
    const losses = new LossLog();
    const names = Array.from({ length: 10 }, (_, index) => `lock-${index}`);
    const holds = await Promise.all(
      names.map(async (name) => losses.watch(await keeper.lock(name).acquire())),
    );
    const rivals = names.map(async (name, index) => {
      const hold = await rival.lock(name).acquire();
      // Whoever looks now is told, also in a process that stood still and has not come to its timers yet.
      const before = holds[index]?.standing;
      return { hold, before, grantedAt: ownTime() };
    });
    // Not right after a renewal, whose time everything counts from.
    await sleep(700);
    const struckAt = ownTime();
    for (const proxy of proxies) proxy.blackhole();

    const granted = await Promise.all(rivals);
    for (const [index, { hold: next, before, grantedAt }] of granted.entries()) {
      const hold = holds[index] as Hold;
      expect(before).toBe('lost');
      expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'unconfirmed' });
      const declaredAt = losses.declaredAt(hold) ?? expect.unreachable('the signal told nobody');
      expect(declaredAt - struckAt).toBeLessThan(TTL_MS);
      expect(declaredAt).toBeLessThan(grantedAt);
      expect(next.token.revision).toBeGreaterThan(hold.token.revision);
    }
    for (const proxy of proxies) proxy.restore();
    expect(holds.map(({ standing }) => standing)).not.toContain('held');
    await keeper.close();
    await Promise.all(proxies.map((proxy) => proxy.close()));
  });
});

it('a slow way to every member, 150 ms each way, costs no hold with a TTL of 5 s', async () => {
  const proxies = await Promise.all(cluster.endpoints.map((endpoint) => startTcpProxy(endpoint)));
  const hosts = proxies.map(({ url }) => url);
  await using keeper = await connect({ hosts, namespace: randomUUID(), ttlMs: 5_000 });
  const hold = await keeper.lock('x').acquire();
  for (const proxy of proxies) proxy.setLatency(150);
  await sleep(7_000);
  expect(hold.signal.reason).toBeUndefined();
  expect(hold.standing).toBe('held');
  expect(await hold.release()).toMatchObject({ outcome: 'released' });
  await keeper.close();
  await Promise.all(proxies.map((proxy) => proxy.close()));
});

describe('all members at once', () => {
  it('frozen for 3 × TTL', async () => {
    const pass = async () => {
      await Promise.all(cluster.members.map((member) => member.pause()));
      await sleep(3 * TTL_MS);
      for (const member of cluster.members) member.resume();
    };
    const { lost } = await outlast({ hosts: cluster.endpoints, ttlMs: TTL_MS, data: 'kept', pass });
    expect(lost).toBeGreaterThan(0);
  });

  it.each([
    { times: 3, data: 'kept' },
    { times: 1, data: 'wiped' },
  ] as const)('killed, and back after $times × TTL with their data $data (F3)', async ({ times, data }) => {
    const pass = () => cluster.restart({ forMs: times * TTL_MS, wipe: data === 'wiped' });
    const { lost } = await outlast({ hosts: cluster.endpoints, ttlMs: TTL_MS, data, pass });
    if (times > 1 || data === 'wiped') expect(lost).toBeGreaterThan(0);
  });
});
