import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import {
  type EtcdServer,
  etcdMetric,
  startEtcd,
  startTcpProxy,
  startWorker,
  waitUntil,
} from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { closedPort } from '../coordinator/support.ts';
import { livedOnMs } from '../support/last-word.ts';
import { failToAcquire, leases, waitInVain } from './leaks.ts';
import { keysBelow, timed } from './support.ts';

/** Whatever fails, nothing of it stays: no key, lease, watch, socket or timer. */

let etcd: EtcdServer;
beforeAll(async () => {
  etcd = await startEtcd({ version: 'newest', own: true });
});
afterAll(() => etcd.stop());

describe('A3: the time that a caller allows bounds the whole call, clean-up included', () => {
  const SLACK_MS = 1_000;

  it.each([
    ['connections refused', 'refused'],
    ['packets swallowed', 'swallowed'],
  ] as const)('%s: 10 waits of 1 s end in time, with and without a session', async (_, how) => {
    await using proxy = await startTcpProxy(etcd.endpoint);
    const namespace = randomUUID();
    const fresh = await connect({ hosts: proxy.url, namespace });
    const used = await connect({ hosts: proxy.url, namespace });
    const held = await used.lock('held').acquire();
    const fault = how === 'refused' ? proxy.refuse() : proxy.blackhole();
    if (how === 'refused') proxy.cut({ rst: true });
    const attempts = [fresh, used].flatMap((keeper) =>
      Array.from({ length: 10 }, (_, index) =>
        timed(() => keeper.lock(`x-${index}`).acquire({ waitTimeoutMs: 1_000 })),
      ),
    );
    const releasing = timed(() => held.release());
    for (const { error, tookMs } of await Promise.all(attempts)) {
      expect(error).toMatchObject({ code: 'unreachable' });
      expect(tookMs).toBeLessThan(1_000 + SLACK_MS);
    }
    if (how === 'swallowed') {
      const reason = new Error('enough');
      const aborted = await timed(() => fresh.lock('y').acquire({ signal: abortIn(300, reason) }));
      expect(aborted.error).toBe(reason);
      expect(aborted.tookMs).toBeLessThan(300 + SLACK_MS);
    }
    // Release has a limit of its own, and goes on in the background.
    const released = await releasing;
    expect(released.value).toMatchObject({ outcome: 'unknown' });
    expect(released.tookMs).toBeLessThan(5_000 + SLACK_MS);
    fault.restore();
    await Promise.all([fresh.close(), used.close()]);
    await waitUntil('no key is left', async () => {
      await using observer = await connect({ hosts: etcd.endpoint, namespace });
      return (await keysBelow(observer.coordinator, `${namespace}/lock/`)).length === 0;
    });
  });

  it('three closed ports: connecting fails at once and says so', async () => {
    const hosts = await Promise.all([closedPort(), closedPort(), closedPort()]);
    const { error, tookMs } = await timed(() => connect({ hosts }));
    expect(error).toMatchObject({ code: 'unreachable', outcome: 'rejected' });
    expect(tookMs).toBeLessThan(3_000);
  });
});

describe('A19, G1: failed acquires', () => {
  it('300 waits in vain leave no lease, key, watch, stream or timer', async () => {
    await waitInVain(etcd, 300);
  });

  it('500 acquires that fail in other ways leave none either', async () => {
    await failToAcquire(etcd, 500);
  });
});

describe('B5: renewals', () => {
  it('end with the keeper, after 300 acquires that were released or cut short over a jittery link', async () => {
    await using proxy = await startTcpProxy(etcd.endpoint);
    const namespace = randomUUID();
    await waitUntil('no lease of another test is left', async () => (await leases(etcd)) === 0);
    const keeper = await connect({ hosts: proxy.url, namespace, ttlMs: 6_000 });
    const jitter = setInterval(() => proxy.setLatency(Math.random() * 5), 1);
    const turn = async (index: number) => {
      const lock = keeper.lock(`x-${index % 7}`);
      if (index % 2 === 0) {
        await timed(() => lock.acquire({ signal: abortIn(Math.random() * 5, 'enough') }));
        return;
      }
      const hold = await lock.acquire();
      await sleep(Math.random() * 5);
      await hold.release();
    };
    for (let done = 0; done < 300; done += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, index) => turn(done + index)));
    }
    clearInterval(jitter);
    await keeper.close();
    await using observer = await connect({ hosts: etcd.endpoint, namespace });
    expect(await keysBelow(observer.coordinator, `${namespace}/lock/`)).toEqual([]);
    expect(await leases(etcd)).toBe(0);
    const renewals = () =>
      etcdMetric(etcd.endpoint, 'grpc_server_started_total', 'grpc_method="LeaseKeepAlive"');
    const before = await renewals();
    await sleep(3_000);
    expect(await renewals()).toBe(before);
  });
});

describe('G9: watches', () => {
  it('are as many as before after the network has flapped for 6 s under the waiters of 100 locks', async () => {
    await using proxy = await startTcpProxy(etcd.endpoint);
    const namespace = randomUUID();
    await using keeper = await connect({ hosts: etcd.endpoint, namespace });
    const names = Array.from({ length: 100 }, (_, index) => `x${index}`);
    const holds = await Promise.all(names.map((name) => keeper.lock(name).acquire()));
    const flapping = await connect({ hosts: proxy.url, namespace, ttlMs: 20_000 });
    const giveUp = new AbortController();
    // Two for each lock: waiters of one name share theirs.
    const waits = [...names, ...names].map((name) =>
      timed(() => flapping.lock(name).acquire({ signal: giveUp.signal })),
    );
    const watchers = () => etcdMetric(etcd.endpoint, 'etcd_debugging_mvcc_watcher_total');
    const keys = async () => (await keysBelow(keeper.coordinator, `${namespace}/lock/`)).length;
    await waitUntil('queued', async () => (await keys()) === 300);
    await waitUntil('holds and queues are watched', async () => (await watchers()) >= 200);
    await sleep(500);
    const before = await watchers();
    expect(before).toBeLessThanOrEqual(2 * 100 + 10);
    const flap = setInterval(() => proxy.cut({ rst: true }), 300);
    let most = 0;
    for (const end = performance.now() + 6_000; performance.now() < end; await sleep(50)) {
      most = Math.max(most, await watchers());
    }
    clearInterval(flap);
    // At most the old stream's and the new one's for the moment until etcd has noticed the reset.
    expect(most).toBeLessThanOrEqual(2 * before + 10);
    await waitUntil('as many as before', async () => (await watchers()) === before);
    giveUp.abort('enough');
    await Promise.all(waits);
    await waitUntil('all gone', async () => (await watchers()) <= 110);
    expect(holds.every(({ standing }) => standing === 'held')).toBe(true);
    await flapping.close();
  });
});

describe('G3: a process', () => {
  it.each(['refused', 'swallowed'] as const)(
    'ends by itself after close() while all it sends is %s',
    async (how) => {
      await using proxy = await startTcpProxy(etcd.endpoint);
      await using worker = await startWorker(new URL('./exit-worker.ts', import.meta.url), {
        args: [proxy.url, randomUUID()],
        pauseAt: { holding: { how: 'wait' } },
      });
      const holding = worker.pauseAt('holding');
      await holding.reached();
      if (how === 'swallowed') proxy.blackhole();
      else proxy.refuse();
      if (how === 'refused') proxy.cut({ rst: true });
      await holding.resume();
      const closed = await worker.next('closed', { timeoutMs: 30_000 });
      expect(closed).toMatchObject({ code: 'unreachable', resources: [] });
      expect(await worker.exited).toEqual({ code: 0, signal: null });
      expect(await livedOnMs(worker)).toBeLessThan(1_000);
      expect(worker.stderr).toBe('');
    },
  );
});

/** Unlike `AbortSignal.timeout`, with a reason of our own. */
function abortIn(delayMs: number, reason: unknown): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => controller.abort(reason), delayMs);
  return controller.signal;
}
