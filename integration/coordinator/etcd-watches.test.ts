import { type Clock, etcdCoordinator, prefixSpan, systemClock, type WatchEvent } from '@lockkeeper/core';
import {
  availableEtcdVersions,
  chunkContaining,
  startEtcd,
  startTcpProxy,
  waitUntil,
} from '@lockkeeper/testkit';
import { describe, expect, test } from 'vitest';
import { ownTime } from '../support/own-time.ts';
import { put, Recorder, remove } from './support.ts';

const versions = await availableEtcdVersions();

function revisionsOf(events: readonly WatchEvent[]): bigint[] {
  return events.map((event) => (event.type === 'put' ? event.kv.modRevision : event.modRevision));
}

describe.each(versions)('watches on etcd %s', (version) => {
  test('a connection cut again and again loses no event and repeats none', async () => {
    await using server = await startEtcd({ version });
    await using proxy = await startTcpProxy(server.endpoint);
    await using watching = etcdCoordinator({ hosts: proxy.url });
    await using writing = etcdCoordinator({ hosts: server.endpoint });
    const seen = new Recorder();
    const { revision } = await writing.txn(put('other'));
    using _ = watching.watch({ ...prefixSpan('cut/'), startRevision: revision + 1n }, seen.handler);

    const written: bigint[] = [];
    for (let i = 0; i < 200; i++) {
      written.push((await writing.txn(i % 3 === 2 ? remove(`cut/${i - 1}`) : put(`cut/${i}`))).revision);
      await writing.txn(put('other', String(i)));
      if (i % 20 !== 10) continue;
      // Else there would be nothing to cut.
      await waitUntil('it is connected again', () => proxy.connections > 0);
      proxy.cut({ rst: i % 40 === 10 });
    }
    await seen.until(({ events }) => events.length >= written.length);
    expect(revisionsOf(seen.events)).toEqual(written);
    expect(proxy.accepted).toBeGreaterThan(10);
  });

  test('a stream cut right after its creation has not swallowed what was due on it', async () => {
    await using server = await startEtcd({ version });
    await using proxy = await startTcpProxy(server.endpoint);
    await using watching = etcdCoordinator({ hosts: proxy.url });
    await using writing = etcdCoordinator({ hosts: server.endpoint });
    const { revision } = await writing.txn(put('holder'));
    await writing.txn(remove('holder'));
    await writing.txn(put('noise'));

    // etcd announces the watch with its newest revision, and sends what happened before a little later.
    const event = proxy.hold({ direction: 'reply', match: chunkContaining('holder') });
    const seen = new Recorder();
    using _ = watching.watch({ key: 'holder', startRevision: revision + 1n }, seen.handler);
    await event.held;
    proxy.cut({ rst: true });
    await event.release();
    await seen.until(({ events }) => events.length > 0);
    expect(seen.told).toEqual(['delete holder']);
  });

  test('a stream cut while it catches up goes on where the events ended', async () => {
    await using server = await startEtcd({ version });
    await using proxy = await startTcpProxy(server.endpoint);
    await using watching = etcdCoordinator({ hosts: proxy.url });
    await using writing = etcdCoordinator({ hosts: server.endpoint });
    // etcd sends at most 1,000 revisions at a time to a watch that is behind.
    const count = 1_600;
    let next = 0;
    const write = async () => {
      while (next < count) await writing.txn(put(`behind/${next++}`));
    };
    await Promise.all(Array.from({ length: 50 }, write));
    const { kvs } = await writing.range({
      ...prefixSpan('behind/'),
      sort: { by: 'modRevision', order: 'ascend' },
    });

    const second = proxy.hold({ direction: 'reply', match: chunkContaining(kvs[1_300]?.key ?? '') });
    const seen = new Recorder();
    using _ = watching.watch({ ...prefixSpan('behind/'), startRevision: 1n }, seen.handler);
    await seen.until(({ events }) => events.length > 0);
    await second.held;
    proxy.cut({ rst: true });
    await second.release();
    await seen.until(({ events }) => events.length >= count);
    expect(revisionsOf(seen.events)).toEqual(kvs.map(({ modRevision }) => modRevision));
  });

  test('a server that restarts while it is watched loses no event', async () => {
    await using server = await startEtcd({ version, own: true });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    const seen = new Recorder();
    using _ = coordinator.watch({ ...prefixSpan('r/'), startRevision: 1n }, seen.handler);
    await coordinator.txn(put('r/1'));
    await seen.until(({ events }) => events.length === 1);
    await server.restart();
    await using other = etcdCoordinator({ hosts: server.endpoint });
    await other.txn(put('r/2'));
    await other.txn(remove('r/1'));
    await seen.until(({ events }) => events.length === 3);
    expect(seen.told).toEqual(['put r/1', 'put r/2', 'delete r/1']);
  });

  test('history that is gone ends a watch with `compacted`, and no other', async () => {
    await using server = await startEtcd({ version, own: true });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    for (let i = 0; i < 10; i++) await coordinator.txn(put('c', String(i)));
    const { revision } = await coordinator.range({ key: 'c' });
    await server.compact(revision);
    const old = new Recorder();
    const current = new Recorder();
    using _ = coordinator.watch({ key: 'c', startRevision: 2n }, old.handler);
    using __ = coordinator.watch({ key: 'c', startRevision: revision + 1n }, current.handler);
    await old.until(({ ended }) => ended !== undefined);
    expect(old.ended).toMatchObject({ code: 'compacted' });
    expect(old.events).toEqual([]);
    await coordinator.txn(put('c', 'more'));
    await current.until(({ events }) => events.length === 1);
  });

  test('data that were wiped end every watch with `history-regressed`', async () => {
    await using server = await startEtcd({ version, own: true });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    for (let i = 0; i < 5; i++) await coordinator.txn(put('w', String(i)));
    const { revision } = await coordinator.range({ key: 'w' });
    const waiting = new Recorder();
    using _ = coordinator.watch({ key: 'w', startRevision: revision + 1n }, waiting.handler);
    const alive = new Recorder();
    using __ = coordinator.watch({ key: 'w', startRevision: 1n }, alive.handler);
    await alive.until(({ events }) => events.length === 5);

    await server.restart({ wipe: true });
    await waiting.until(({ ended }) => ended !== undefined);
    expect(waiting.ended).toMatchObject({ code: 'history-regressed' });
    await alive.until(({ ended }) => ended !== undefined);

    const after = new Recorder();
    using ___ = coordinator.watch({ key: 'w', startRevision: 1n }, after.handler);
    await coordinator.txn(put('w', 'new'));
    await after.until(({ events }) => events.length === 1);
  });

  test('a revision in the future is not taken for lost history', async () => {
    await using server = await startEtcd({ version, own: true });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    const { revision } = await coordinator.txn(put('f'));
    const seen = new Recorder();
    using _ = coordinator.watch({ key: 'f', startRevision: revision + 3n }, seen.handler);
    for (let i = 1; i <= 3; i++) await coordinator.txn(put('f', String(i)));
    await seen.until(({ events }) => events.length === 1);
    expect(revisionsOf(seen.events)).toEqual([revision + 3n]);
    expect(seen.ended).toBeUndefined();
  });

  test('500 watchers share one connection, see their own keys only, and close one by one', async () => {
    await using server = await startEtcd({ version });
    await using proxy = await startTcpProxy(server.endpoint);
    await using coordinator = etcdCoordinator({ hosts: proxy.url });
    const { revision } = await coordinator.txn(put('many'));
    const watchers = Array.from({ length: 500 }, (_, i) => {
      const seen = new Recorder();
      const watch = coordinator.watch({ key: `many/${i}`, startRevision: revision + 1n }, seen.handler);
      return { seen, watch };
    });
    for (const { watch } of watchers.slice(0, 250)) watch.close();
    for (let i = 0; i < 500; i += 50) {
      const success = Array.from(
        { length: 50 },
        (_, j) => ({ op: 'put', key: `many/${i + j}`, value: '' }) as const,
      );
      await coordinator.txn({ compare: [], success, failure: [] });
    }
    for (const [i, { seen }] of watchers.entries()) {
      if (i < 250) continue;
      await seen.until(({ events }) => events.length > 0);
      expect(seen.told).toEqual([`put many/${i}`]);
    }
    expect(watchers.slice(0, 250).flatMap(({ seen }) => seen.events)).toEqual([]);
    expect(proxy.accepted).toBe(1);
    for (const { watch } of watchers) watch.close();
  });

  test('a watch of what is still to come stays where it is while nothing happens', async () => {
    await using server = await startEtcd({ version, own: true });
    // Twice as fast, and it counts how often it has been silent for the 4 s after which a stream is asked for a sign of life.
    let silences = 0;
    const clock: Clock = {
      ...systemClock,
      setTimer: (delayMs, fire, options) =>
        systemClock.setTimer(
          delayMs / 2,
          () => {
            if (delayMs === 4_000) silences += 1;
            fire();
          },
          options,
        ),
    };
    await using coordinator = etcdCoordinator({ hosts: server.endpoint, clock });
    const { revision } = await coordinator.txn(put('quiet'));
    let resumed = 0;
    const seen = new Recorder();
    const handler = { ...seen.handler, onResumed: () => (resumed += 1) };
    using _ = coordinator.watch({ key: 'quiet', startRevision: revision + 1n }, handler);
    await waitUntil('it was asked, and has answered or not', () => silences >= 4, { timeoutMs: 40_000 });
    expect(resumed).toBe(0);
    await coordinator.txn(put('quiet'));
    await seen.until(({ events }) => events.length > 0);
  });

  test('a revision of many events arrives whole, however large', async () => {
    await using server = await startEtcd({ version });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    const padding = 'x'.repeat(200);
    const count = 30_000;
    for (let i = 0; i < count; i += 100) {
      const success = Array.from(
        { length: 100 },
        (_, j) => ({ op: 'put', key: `big/${padding}/${i + j}`, value: '' }) as const,
      );
      await coordinator.txn({ compare: [], success, failure: [] });
    }
    const { revision } = await coordinator.txn({
      compare: [],
      success: [{ op: 'delete', ...prefixSpan('big/') }],
      failure: [],
    });
    const seen = new Recorder();
    using _ = coordinator.watch({ ...prefixSpan('big/'), startRevision: revision }, seen.handler);
    await seen.until(({ events, ended }) => events.length > 0 || ended !== undefined);
    expect(seen.ended).toBeUndefined();
    // Whatever came first came whole.
    expect(seen.events).toHaveLength(count);
  });
});

describe('a member that falls silent', () => {
  test('its watches go on at the next member within 15 s without a call', async () => {
    await using server = await startEtcd();
    await using first = await startTcpProxy(server.endpoint);
    await using second = await startTcpProxy(server.endpoint);
    await using writing = etcdCoordinator({ hosts: server.endpoint });
    await using watching = etcdCoordinator({ hosts: [first.url, second.url] });
    const seen = new Recorder();
    using _ = watching.watch({ key: 's', startRevision: 1n }, seen.handler);
    await writing.txn(put('s', '1'));
    await seen.until(({ events }) => events.length === 1);
    using __ = first.blackhole();
    const start = ownTime();
    await writing.txn(put('s', '2'));
    await seen.until(({ events }) => events.length === 2);
    expect(ownTime() - start).toBeLessThan(15_000);
  });

  test('a call that fails there makes them go on within 3 s', async () => {
    await using server = await startEtcd();
    await using first = await startTcpProxy(server.endpoint);
    await using second = await startTcpProxy(server.endpoint);
    await using writing = etcdCoordinator({ hosts: server.endpoint });
    await using watching = etcdCoordinator({ hosts: [first.url, second.url] });
    const seen = new Recorder();
    using _ = watching.watch({ key: 's', startRevision: 1n }, seen.handler);
    await writing.txn(put('s', '1'));
    await seen.until(({ events }) => events.length === 1);
    using __ = first.blackhole();
    await watching.renew(5n, { timeoutMs: 4_000 });
    const start = ownTime();
    await writing.txn(put('s', '2'));
    await seen.until(({ events }) => events.length === 2);
    expect(ownTime() - start).toBeLessThan(3_000);
  });
});
