import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Coordinator, connect, type Operation } from '@lockkeeper/core';
import { chunkContaining, etcdMetric, startEtcd, startTcpProxy, waitUntil } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import { ownTime } from '../support/own-time.ts';
import { queueOf, timed } from './support.ts';

function put(coordinator: Coordinator, ...keys: readonly string[]) {
  const success = keys.map((key): Operation => ({ op: 'put', key, value: '' }));
  return coordinator.txn({ compare: [], success, failure: [] });
}

/** Requests that write, tried again or not. */
async function writes(endpoint: string): Promise<number> {
  const started = ['Txn', 'LeaseGrant'].map((method) =>
    etcdMetric(endpoint, 'grpc_server_started_total', `grpc_method="${method}"`),
  );
  return (await Promise.all(started)).reduce((sum, count) => sum + count, 0);
}

/** What etcd forgets, and what it has no room for. */
export function describeStoreLimits(version: string): void {
  describe(`etcd ${version}`, () => {
    it('F4: a waiter whose history was compacted while it was cut off reads the queue again', async () => {
      await using etcd = await startEtcd({ version, own: true });
      await using proxy = await startTcpProxy(etcd.endpoint);
      const namespace = randomUUID();
      await using keeper = await connect({ hosts: etcd.endpoint, namespace });
      await using waiter = await connect({ hosts: proxy.url, namespace, ttlMs: 60_000 });
      const hold = await keeper.lock('x').acquire();
      const waiting = timed(() => waiter.lock('x').acquire());
      await waitUntil('queued', async () => (await queueOf(keeper.coordinator, namespace, 'x')).length === 2);

      for (let written = 0; written < 10_000; written += 100) {
        await put(
          keeper.coordinator,
          ...Array.from({ length: 100 }, (_, index) => `unrelated/${written + index}`),
        );
      }
      const refusal = proxy.refuse();
      proxy.cut({ rst: true });
      await hold.release();
      await put(keeper.coordinator, 'head');
      await etcd.compact();
      const asked = () =>
        etcdMetric(etcd.endpoint, 'grpc_server_started_total', 'grpc_method="Range"').then(async (ranges) => {
          return (
            ranges + (await etcdMetric(etcd.endpoint, 'grpc_server_started_total', 'grpc_method="Watch"'))
          );
        });
      const askedBefore = await asked();
      const backAt = ownTime();
      refusal.restore();

      const { value: next, error } = await waiting;
      expect(error).toBeUndefined();
      expect(ownTime() - backAt).toBeLessThan(5_000);
      expect(next?.token.revision).toBeGreaterThan(hold.token.revision);
      expect((await asked()) - askedBefore).toBeLessThan(10);
    });

    it('F9: with a full disk holds go on and are released, and what needs room says so at once', async () => {
      const ttlMs = 4_000;
      await using etcd = await startEtcd({ version, extraArgs: ['--quota-backend-bytes=4000000'] });
      await using proxy = await startTcpProxy(etcd.endpoint);
      const namespace = randomUUID();
      const hosts = etcd.endpoint;
      await using keeper = await connect({ hosts, namespace, ttlMs });
      await using waiter = await connect({ hosts, namespace, ttlMs });
      await using newcomer = await connect({ hosts, namespace, ttlMs });
      await using unlucky = await connect({ hosts: proxy.url, namespace, ttlMs: 10_000 });
      const hold = await keeper.lock('x').acquire();
      const waiting = timed(() => waiter.lock('x').acquire());
      await waitUntil('queued', async () => (await queueOf(keeper.coordinator, namespace, 'x')).length === 2);
      await (await unlucky.lock('warm-up').acquire()).release();
      const reply = proxy.loseReply({ match: chunkContaining('lock/y/') });
      const acquiring = unlucky.lock('y').acquire();
      await reply.lost;
      reply.restore();
      const afterLostReply = await acquiring;

      const value = Buffer.alloc(1_000_000);
      const filled = await timed(async () => {
        for (let index = 0; ; index += 1) {
          const success: Operation[] = [{ op: 'put', key: `filler/${index}`, value }];
          await keeper.coordinator.txn({ compare: [], success, failure: [] });
        }
      });
      expect(filled.error).toMatchObject({ code: 'storage-full' });
      await sleep(3 * ttlMs);
      expect(hold.standing).toBe('held');

      const writesBefore = await writes(hosts);
      const refused = await timed(() => newcomer.lock('new').acquire({ waitTimeoutMs: 10_000 }));
      expect(refused.error).toMatchObject({ code: 'storage-full' });
      expect(refused.tookMs).toBeLessThan(2_000);
      expect((await writes(hosts)) - writesBefore).toBe(1);

      expect(await hold.release()).toMatchObject({ outcome: 'released' });
      const next = (await waiting).value;
      expect(next?.standing).toBe('held');
      expect(await next?.release()).toMatchObject({ outcome: 'released' });
      // Its enqueue was never answered, so its end writes a bar against the copy that may still come.
      expect(await afterLostReply.release()).toMatchObject({ outcome: 'released' });
      expect(await queueOf(keeper.coordinator, namespace, 'y')).toEqual([]);

      await etcd.ctl(['del', '--prefix', 'filler/']);
      await etcd.reclaimSpace();
      expect((await newcomer.lock('new').acquire()).standing).toBe('held');
    });
  });
}
