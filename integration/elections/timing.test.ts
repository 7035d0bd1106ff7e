import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, type Coordinator, connect, etcdCoordinator, type Term } from '@lockkeeper/core';
import { type EtcdServer, startEtcd, startTcpProxy } from '@lockkeeper/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ownTime } from '../support/own-time.ts';

let etcd: EtcdServer;
beforeAll(async () => {
  etcd = await startEtcd();
});
afterAll(() => etcd.stop());

/** The same coordinator for somebody whose wall clock is off by so much. */
function withWallClockOff(inner: Coordinator, byMs: number): Coordinator {
  const { clock: real } = inner;
  const clock: Clock = {
    now: () => real.now(),
    wallTime: () => real.wallTime() + byMs,
    setTimer: (delayMs, fire, options) => real.setTimer(delayMs, fire, options),
    random: () => real.random(),
  };
  return new Proxy(inner, {
    get: (target, key) => {
      const value: unknown = key === 'clock' ? clock : Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

it('E17: a leader whose packets are lost steps down a TTL after its last confirmed renewal, before the next one leads', async () => {
  const namespace = randomUUID();
  const ttlMs = 3_000;
  await using proxy = await startTcpProxy(etcd.endpoint);
  await using cutOff = await connect({ hosts: proxy.url, namespace, ttlMs });
  await using rival = await connect({ hosts: etcd.endpoint, namespace, ttlMs });
  const term = await cutOff.election('x').campaign();
  // Whoever looks then is told, also in a process that stood still and has not come to its timers yet.
  const next = rival
    .election('x')
    .campaign()
    .then((successor) => ({ successor, before: term.standing }));
  // Not right after the grant, whose time everything counts from.
  await sleep(500);
  proxy.blackhole();
  const struckAt = ownTime();
  const lostAt = await new Promise<number>((resolve) => {
    term.signal.addEventListener('abort', () => resolve(ownTime()), { once: true });
  });
  expect(lostAt - struckAt).toBeLessThan(ttlMs);
  const { successor, before } = await next;
  expect(before).toBe('lost');
  expect(successor.token.revision).toBeGreaterThan(term.token.revision);
  proxy.restore();
});

it('E19: candidates whose wall clocks are a day off lead and lose like any other', async () => {
  const namespace = randomUUID();
  const dayMs = 86_400_000;
  const keepers = await Promise.all(
    [-dayMs, 0, dayMs].map((byMs) =>
      connect({
        coordinator: withWallClockOff(etcdCoordinator({ hosts: etcd.endpoint }), byMs),
        namespace,
        ttlMs: 4_000,
      }),
    ),
  );
  const terms: Term[] = [];
  for (const keeper of keepers) {
    const campaign = keeper.election('x').campaign();
    const standing = terms.at(-1);
    if (standing !== undefined) {
      // Longer than a TTL: it is renewed, whatever the day.
      await sleep(4_500);
      expect(standing.standing).toBe('held');
      await standing.resign();
    }
    terms.push(await campaign);
  }
  const revisions = terms.map(({ token }) => token.revision);
  expect(revisions).toEqual([...revisions].sort((a, b) => Number(a - b)));
  await Promise.all(keepers.map((keeper) => keeper.close()));
});
