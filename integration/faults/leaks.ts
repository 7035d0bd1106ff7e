import { randomUUID } from 'node:crypto';
import { connect, type Hold, type Keeper } from '@lockkeeper/core';
import { type EtcdServer, etcdMetric, startTcpProxy, waitUntil } from '@lockkeeper/testkit';
import { expect } from 'vitest';
import { queueOf, timed } from './support.ts';

/** What one side or the other may be left with. */
interface Footprint {
  readonly leases: number;
  readonly watchers: number;
  readonly connections: number;
  readonly timers: number;
}

/** How many leases etcd has. */
export async function leases(etcd: EtcdServer): Promise<number> {
  const list = await etcd.ctl(['lease', 'list']);
  return Number(/found (\d+) leases/.exec(list)?.[1] ?? Number.NaN);
}

/** Waits for a lock that is not given back, over and over: afterwards everything is as after the first few. */
export async function waitInVain(etcd: EtcdServer, times: number): Promise<void> {
  const namespace = randomUUID();
  await using proxy = await startTcpProxy(etcd.endpoint);
  await using holder = await connect({ hosts: etcd.endpoint, namespace });
  const hold = await holdWatched(etcd, holder);
  const keeper = await connect({ hosts: proxy.url, namespace });
  const wait = (index: number) => timed(() => keeper.lock('x').acquire({ waitTimeoutMs: 20 + (index % 20) }));
  const isTidy = async () => (await queueOf(holder.coordinator, namespace, 'x')).length === 1;
  const run = (from: number, to: number) =>
    inBatches(from, to, isTidy, async (index) => {
      expect((await wait(index)).error).toMatchObject({
        code: expect.stringMatching(/wait-timeout|unreachable/),
      });
    });

  await run(0, 20);
  const before = await settledFootprint(etcd, proxy, keeper, namespace, 1);
  await run(20, times);
  expect(await settledFootprint(etcd, proxy, keeper, namespace, 1)).toEqual(before);
  expect(hold.standing).toBe('held');
  await keeper.close();
}

/** Aborted in every state, refused by a foreign key, and cut off: afterwards everything is as before. */
export async function failToAcquire(etcd: EtcdServer, times: number): Promise<void> {
  const namespace = randomUUID();
  await using proxy = await startTcpProxy(etcd.endpoint);
  await using holder = await connect({ hosts: etcd.endpoint, namespace });
  const hold = await holdWatched(etcd, holder);
  const keeper = await connect({ hosts: proxy.url, namespace });
  const fail = async (index: number): Promise<unknown> => {
    const lock = keeper.lock('x');
    if (index % 3 === 0) return lock.acquire({ waitTimeoutMs: 0 });
    if (index % 3 === 1) {
      const abort = new AbortController();
      setTimeout(() => abort.abort(new Error('enough')), index % 12);
      return lock.acquire({ signal: abort.signal });
    }
    // A guard that refuses: the lock was granted already.
    const refusing = { resource: 'r', claim: refuse, seal: refuse };
    return keeper.lock(`own-${index}`).acquire({ claims: [refusing] });
  };
  const isTidy = async () => (await queueOf(holder.coordinator, namespace, 'x')).length === 1;
  const run = (from: number, to: number) =>
    inBatches(from, to, isTidy, async (index) => {
      expect((await timed(() => fail(index))).error).toBeDefined();
    });

  await run(0, 24);
  const before = await settledFootprint(etcd, proxy, keeper, namespace, 1);
  await run(24, times);
  expect(await settledFootprint(etcd, proxy, keeper, namespace, 1)).toEqual(before);
  expect(hold.standing).toBe('held');
  await keeper.close();
}

/** A hold whose ownership watch stands: it comes a moment after the grant, and counts among the watchers. */
async function holdWatched(etcd: EtcdServer, holder: Keeper): Promise<Hold> {
  const watchers = () => etcdMetric(etcd.endpoint, 'etcd_debugging_mvcc_watcher_total');
  await waitUntil('nobody watches yet', async () => (await watchers()) === 0);
  const hold = await holder.lock('x').acquire();
  await waitUntil('the hold is watched', async () => (await watchers()) === 1);
  return hold;
}

function refuse(): Promise<never> {
  return Promise.reject(new Error('refused'));
}

/** The next batch begins when nothing of the last one is left: this is about leaks, not about overload. */
async function inBatches(
  from: number,
  to: number,
  isTidy: () => Promise<boolean>,
  act: (index: number) => Promise<void>,
): Promise<void> {
  for (let start = from; start < to; start += 20) {
    const size = Math.min(20, to - start);
    await Promise.all(Array.from({ length: size }, (_, index) => act(start + index)));
    await waitUntil('the queue holds nobody but the holder', isTidy);
  }
}

/** Once what goes on in the background has come to an end: the queue is as long as it should be. */
async function settledFootprint(
  etcd: EtcdServer,
  proxy: { readonly connections: number },
  keeper: Keeper,
  namespace: string,
  queueLength: number,
): Promise<Footprint> {
  const { coordinator } = keeper;
  let last: Footprint | undefined;
  await waitUntil('all endings are confirmed, and two looks are alike', async () => {
    if ((await queueOf(coordinator, namespace, 'x')).length !== queueLength) return false;
    const next = {
      leases: await leases(etcd),
      watchers: await etcdMetric(etcd.endpoint, 'etcd_debugging_mvcc_watcher_total'),
      connections: proxy.connections,
      timers: process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length,
    };
    const alike = JSON.stringify(next) === JSON.stringify(last);
    last = next;
    return alike;
  });
  return last ?? expect.unreachable();
}
