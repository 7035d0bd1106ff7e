import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Hold, type TelemetryEvents } from '@lockkeeper/core';
import { startEtcd } from '@lockkeeper/testkit';
import { expect, it } from 'vitest';

it('B7: 5,000 holds in one process for 2 minutes, with the processor busy a third of the time', async () => {
  await using etcd = await startEtcd();
  const ttlMs = 10_000;
  await using keeper = await connect({ hosts: etcd.endpoint, namespace: randomUUID(), ttlMs });
  const lags: number[] = [];
  const onRenewed = (event: unknown) =>
    void lags.push((event as TelemetryEvents['lockkeeper:session:renewed']).lagMs);
  subscribe('lockkeeper:session:renewed', onRenewed);
  const holds: Hold[] = [];
  for (let batch = 0; batch < 50; batch += 1) {
    const names = Array.from({ length: 100 }, (_, index) => `lock-${batch * 100 + index}`);
    holds.push(...(await Promise.all(names.map((name) => keeper.lock(name).acquire()))));
  }
  for (const end = performance.now() + 120_000; performance.now() < end; ) {
    for (const busy = performance.now() + 30; performance.now() < busy; );
    await sleep(70);
  }
  unsubscribe('lockkeeper:session:renewed', onRenewed);
  expect(holds.filter((hold) => hold.standing !== 'held')).toEqual([]);
  // One lease for all of them: a renewal every third of the TTL, whatever the number of holds.
  expect(lags.length).toBeLessThan(60);
  expect(Math.max(...lags)).toBeLessThan(ttlMs / 3);
  for (let at = 0; at < holds.length; at += 100)
    await Promise.all(holds.slice(at, at + 100).map((hold) => hold.release()));
});
