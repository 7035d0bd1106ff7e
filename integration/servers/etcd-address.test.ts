// I1: whatever a test does to its servers, the address that its clients were given stays good.
import { connect, type Keeper } from '@lockkeeper/core';
import { startEtcd, startEtcdCluster } from '@lockkeeper/testkit';
import { expect, it } from 'vitest';

/** A client that was there before must find the server again: it is given half a minute. */
async function usesItAgain(keeper: Keeper): Promise<void> {
  const signal = AbortSignal.timeout(30_000);
  for (;;) {
    try {
      const hold = await keeper.lock('x').acquire({ signal });
      expect((await hold.release()).outcome).toBe('released');
      return;
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== 'unreachable' && code !== 'lost-while-waiting') throw error;
    }
  }
}

it('one etcd: the same string before and after restarts, with and without data', async () => {
  await using etcd = await startEtcd({ own: true });
  const { endpoint } = etcd;
  await using keeper = await connect({ hosts: endpoint, ttlMs: 5_000 });
  await usesItAgain(keeper);
  for (const restart of [{}, { wipe: true }]) {
    await etcd.restart(restart);
    expect(etcd.endpoint).toBe(endpoint);
    await usesItAgain(keeper);
  }
});

it('three members: the same strings, for one that restarts and for all of them', async () => {
  await using cluster = await startEtcdCluster({ proxied: true });
  const endpoints = [...cluster.endpoints];
  await using keeper = await connect({ hosts: endpoints, ttlMs: 5_000 });
  await usesItAgain(keeper);
  const [first] = cluster.members;
  const restarts = [
    () => first?.restart(),
    () => first?.restart({ wipe: true }),
    () => cluster.restart(),
    () => cluster.restart({ wipe: true }),
  ];
  for (const restart of restarts) {
    await restart();
    expect(cluster.endpoints).toEqual(endpoints);
    expect(cluster.members.map(({ endpoint }) => endpoint)).toEqual(endpoints);
    await usesItAgain(keeper);
  }
});
