import { setImmediate as nextTurn } from 'node:timers/promises';
import { etcdCoordinator } from '@lockkeeper/core';
import { chunkContaining, startEtcd, startTcpProxy } from '@lockkeeper/testkit';
import { describe, expect, test } from 'vitest';
import { ownTime } from '../support/own-time.ts';
import { closedPort, failure, muteServer, put } from './support.ts';

/** A call that may take 1 s; without that limit it would take the 5 s of `callTimeoutMs`. */
const LIMITED_WITHIN_MS = 3_000;

describe('a member that answers nothing', () => {
  test('a write on a frozen member is bounded, and its outcome unknown', async () => {
    await using server = await startEtcd({ version: 'newest', own: true });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    await coordinator.range({ key: 'x' });

    await server.pause();
    const { error, tookMs } = await failure(coordinator.txn(put('x'), { timeoutMs: 1_000 }));
    expect(error).toMatchObject({ code: 'unreachable', outcome: 'unknown' });
    expect(error.message).toContain(server.endpoint);
    expect(error.message).toMatch(/no answer within \d+ ms|Deadline exceeded/);
    expect(tookMs).toBeGreaterThan(900);
    expect(tookMs).toBeLessThan(LIMITED_WITHIN_MS);
    server.resume();
  });

  test('reads, renewals, grants, revokes and the version are bounded as well', async () => {
    await using server = await startEtcd({ version: 'newest', own: true });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    await coordinator.grant({ lease: 7n, ttlMs: 60_000 });

    await server.pause();
    const options = { timeoutMs: 1_000 };
    const calls = await Promise.all(
      [
        coordinator.range({ key: 'x' }, options),
        coordinator.txn({ compare: [], success: [], failure: [] }, options),
        coordinator.renew(7n, options),
        coordinator.grant({ lease: 8n, ttlMs: 1_000 }, options),
        coordinator.revoke(7n, options),
        coordinator.describe(options),
      ].map(failure),
    );
    for (const { error, tookMs } of calls) {
      expect(error).toMatchObject({ code: 'unreachable' });
      expect(tookMs).toBeLessThan(LIMITED_WITHIN_MS);
    }
    server.resume();
  });

  test('a fresh coordinator sends nothing into it, and says so', async () => {
    await using server = await startEtcd({ version: 'newest', own: true });
    await server.pause();
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    const { error, tookMs } = await failure(coordinator.txn(put('never'), { timeoutMs: 1_000 }));
    expect(error).toMatchObject({ code: 'unreachable', outcome: 'rejected' });
    expect(tookMs).toBeLessThan(LIMITED_WITHIN_MS);
    server.resume();
    expect(await coordinator.range({ key: 'never' })).toMatchObject({ count: 0 });
  });

  test('mute first, closed second, healthy third: served within 3 s, then at once', async () => {
    await using server = await startEtcd();
    await using mute = await muteServer();
    const hosts = [mute.endpoint, await closedPort(), server.endpoint];
    await using coordinator = etcdCoordinator({ hosts });

    const start = ownTime();
    await coordinator.grant({ lease: 11n, ttlMs: 60_000 });
    expect(ownTime() - start).toBeLessThan(3_000);

    const again = ownTime();
    await coordinator.txn(put('sticky'));
    await coordinator.renew(11n);
    expect(ownTime() - again).toBeLessThan(900);
  });

  test('after a write was lost in a frozen member, the next one goes elsewhere', async () => {
    await using frozen = await startEtcd({ version: 'newest', own: true });
    await using healthy = await startEtcd({ version: 'newest', own: true });
    await using coordinator = etcdCoordinator({ hosts: [frozen.endpoint, healthy.endpoint] });
    await coordinator.range({ key: 'x' });

    await frozen.pause();
    const { error } = await failure(coordinator.txn(put('first'), { timeoutMs: 1_000 }));
    expect(error).toMatchObject({ code: 'unreachable', outcome: 'unknown' });
    await coordinator.txn(put('second'), { timeoutMs: 4_000 });
    await using direct = etcdCoordinator({ hosts: healthy.endpoint });
    expect(await direct.range({ key: 'second' })).toMatchObject({ count: 1 });
    frozen.resume();
  });

  test('a read goes on to the next member within its time', async () => {
    await using frozen = await startEtcd({ version: 'newest', own: true });
    await using healthy = await startEtcd({ version: 'newest', own: true });
    await using coordinator = etcdCoordinator({ hosts: [frozen.endpoint, healthy.endpoint] });
    await coordinator.range({ key: 'x' });
    await frozen.pause();
    await coordinator.range({ key: 'x' }, { timeoutMs: 4_000 });
    frozen.resume();
  });

  test('a renewal leaves time for the next member', async () => {
    await using server = await startEtcd();
    await using first = await startTcpProxy(server.endpoint);
    await using second = await startTcpProxy(server.endpoint);
    await using coordinator = etcdCoordinator({ hosts: [first.url, second.url] });
    await coordinator.grant({ lease: 12n, ttlMs: 60_000 });

    using _ = first.blackhole();
    expect(await coordinator.renew(12n, { timeoutMs: 6_000 })).toEqual({ ttlMs: 60_000 });
    expect(second.accepted).toBe(1);
  });
});

describe('members that are not there', () => {
  test('three closed ports: rejected at once, with the reason of each', async () => {
    const hosts = [await closedPort(), await closedPort(), await closedPort()];
    await using coordinator = etcdCoordinator({ hosts });
    for (const call of [() => coordinator.txn(put('x')), () => coordinator.range({ key: 'x' })]) {
      const { error, tookMs } = await failure(call());
      expect(error).toMatchObject({ code: 'unreachable', outcome: 'rejected' });
      for (const host of hosts) expect(error.message).toContain(host);
      expect(error.message).toContain('ECONNREFUSED');
      expect(error.cause).toBeInstanceOf(Error);
      expect(tookMs).toBeLessThan(1_000);
    }
  });

  test('a member that comes back serves the very next call', async () => {
    await using server = await startEtcd({ version: 'newest', own: true });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    await coordinator.txn(put('before'));
    await server.kill();
    // Often enough to make the channel wait for long before it tries again.
    for (let i = 0; i < 10; i++) {
      const { error } = await failure(coordinator.range({ key: 'before' }, { timeoutMs: 500 }));
      expect(error).toMatchObject({ code: 'unreachable' });
    }
    await server.restart();
    expect(await coordinator.range({ key: 'before' })).toMatchObject({ count: 1 });
  });
});

describe('messages that are lost', () => {
  test('a lost reply is an unknown outcome, and the write was applied once', async () => {
    await using server = await startEtcd();
    await using proxy = await startTcpProxy(server.endpoint);
    await using coordinator = etcdCoordinator({ hosts: proxy.url });
    await coordinator.range({ key: 'x' });

    using reply = proxy.loseReply({ match: chunkContaining('lost-reply') });
    const { error } = await failure(coordinator.txn(put('lost-reply'), { timeoutMs: 1_000 }));
    await reply.lost;
    expect(error).toMatchObject({ code: 'unreachable', outcome: 'unknown' });
    reply.restore();
    const { kvs } = await coordinator.range({ key: 'lost-reply' });
    expect(kvs).toMatchObject([{ version: 1n }]);
  });

  test('a connection that breaks under a write leaves it unknown at once; a read is asked again', async () => {
    await using server = await startEtcd();
    await using proxy = await startTcpProxy(server.endpoint);
    await using coordinator = etcdCoordinator({ hosts: proxy.url });
    await coordinator.range({ key: 'x' });

    const heldWrite = proxy.hold({ direction: 'request', match: chunkContaining('cut-write') });
    const write = failure(coordinator.txn(put('cut-write')));
    await heldWrite.held;
    proxy.cut({ rst: true });
    const { error, tookMs } = await write;
    expect(error).toMatchObject({ code: 'unreachable', outcome: 'unknown' });
    expect(tookMs).toBeLessThan(2_000);
    await heldWrite.release();

    await coordinator.range({ key: 'x' });
    const heldRead = proxy.hold({ direction: 'request', match: chunkContaining('cut-read') });
    const read = coordinator.range({ key: 'cut-read' });
    await heldRead.held;
    proxy.cut({ rst: true });
    await heldRead.release();
    expect(await read).toMatchObject({ count: 0 });
  });
});

describe('signals', () => {
  test('stop the waiting at once, with the reason untouched', async () => {
    await using server = await startEtcd({ version: 'newest', own: true });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint });
    await coordinator.range({ key: 'x' });
    await server.pause();
    const reason = { why: 'enough' };
    const controller = new AbortController();
    const errors: unknown[] = [];
    const calls = [
      coordinator.txn(put('x'), { signal: controller.signal }),
      coordinator.range({ key: 'x' }, { signal: controller.signal }),
      coordinator.renew(1n, { signal: controller.signal }),
    ];
    for (const call of calls) call.catch((error: unknown) => errors.push(error));
    controller.abort(reason);
    // No timer and no reply comes before the next turn.
    await nextTurn();
    expect(errors).toEqual([reason, reason, reason]);
    for (const error of errors) expect(error).toBe(reason);
    expect((await failure(coordinator.range({ key: 'x' }, { signal: controller.signal }))).error).toBe(
      reason,
    );
    server.resume();
  });
});
