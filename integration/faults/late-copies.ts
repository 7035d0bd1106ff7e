import { randomUUID } from 'node:crypto';
import { connect, type Hold, type Keeper } from '@lockkeeper/core';
import {
  chunkContaining,
  type EtcdCluster,
  type EtcdMember,
  startEtcdCluster,
  startTcpProxy,
  waitUntil,
} from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import { handledTxns, keysBelow, queueOf, timed } from './support.ts';

/** Each ends in one of three ways. */
const NAMES = 21;

/** A request that no reply ever came for may still be carried out later. It must not leave a key behind. */
export function describeLateCopies(version: string, cycles: number): void {
  describe(`A5: late copies of an enqueue, etcd ${version}`, () => {
    it(
      `leave no key in ${cycles * NAMES} tries through a frozen follower`,
      async () => {
        // A follower that thaws must not unsettle the leader and drop what it was sent; 3.5 does this by default.
        await using cluster = await startEtcdCluster({ version, extraArgs: ['--pre-vote=true'] });
        const namespace = randomUUID();
        await using rival = await connect({ hosts: cluster.endpoints, namespace });
        for (let cycle = 0; cycle < cycles; cycle += 1) {
          await onePause(cluster, rival, namespace, cycle);
        }
      },
      60_000 + cycles * 30_000,
    );
  });
}

/**
 * One pause of the follower that a keeper talks to. Every first copy is certainly with that follower before
 * anything is given up, and the keeper's words to it afterwards ("never mind") are held back: else the
 * follower would drop most copies by itself when it wakes up.
 */
async function onePause(
  cluster: EtcdCluster,
  rival: Keeper,
  namespace: string,
  cycle: number,
): Promise<void> {
  const [frozen] = (await cluster.followers()) as [EtcdMember];
  await using proxy = await startTcpProxy(frozen.endpoint);
  const healthy = cluster.members.filter((member) => member !== frozen);
  const hosts = [proxy.url, ...healthy.map(({ endpoint }) => endpoint)];
  // Now all in one message, now each in one of its own.
  const groupCommit = cycle % 2 === 1;
  // One try may take a third of that: longer than those who give up wait, so that none of them goes on elsewhere.
  // And no pause is so long that the connection, and with it what the follower has not read yet, is given up.
  await using keeper = await connect({ hosts, namespace, ttlMs: 12_000, groupCommit, keepaliveMs: 60_000 });
  const messages = groupCommit ? 1 : NAMES;
  await (await keeper.lock('warm-up').acquire()).release();
  const names = Array.from({ length: NAMES }, (_, index) => `c${cycle}-${index}`);
  const [toRelease, toGiveUp, toGiveUpInLine] = [0, 1, 2].map((way) =>
    names.filter((_, index) => index % 3 === way),
  ) as [string[], string[], string[]];
  const inTheirWay = await Promise.all(toGiveUpInLine.map((name) => rival.lock(name).acquire()));
  const before = await handledTxns(frozen);

  await frozen.pause();
  const lastSent = proxy.hold({ direction: 'request', match: chunkContaining(`lock/${names.at(-1)}/`) });
  const giveUp = new AbortController();
  const given = toGiveUp.map((name) => timed(() => keeper.lock(name).acquire({ waitTimeoutMs: 3_000 })));
  const held = toRelease.map((name) => keeper.lock(name).acquire({ waitTimeoutMs: 30_000 }));
  const waits = toGiveUpInLine.map((name) =>
    timed(() => keeper.lock(name).acquire({ signal: giveUp.signal })),
  );
  await lastSent.held;
  expect(await lastSent.release()).toBe(true);

  // The control: a put like any other, through the same connection, which nothing takes back.
  const control = `${namespace}-control/${cycle}`;
  const controlSent = proxy.hold({ direction: 'request', match: chunkContaining(control) });
  const putControl = timed(() =>
    keeper.coordinator.txn(
      { compare: [], success: [{ op: 'put', key: control, value: '' }], failure: [] },
      { timeoutMs: 2_000 },
    ),
  );
  await controlSent.held;
  const afterControl = proxy.hold({ direction: 'request' });
  expect(await controlSent.release()).toBe(true);
  expect((await putControl).error).toMatchObject({ code: 'unreachable', outcome: 'unknown' });

  for (const { error } of await Promise.all(given)) expect(error).toMatchObject({ code: 'unreachable' });
  const holds = await Promise.all(held);
  await waitUntil('queued behind the rival', async () => {
    const queues = await Promise.all(
      toGiveUpInLine.map((name) => queueOf(rival.coordinator, namespace, name)),
    );
    return queues.every(({ length }) => length === 2);
  });
  giveUp.abort('enough');
  for (const { error } of await Promise.all(waits)) expect(error).toBe('enough');
  await Promise.all(holds.map(async (hold) => expect((await hold.release()).outcome).toBe('released')));
  const cancelled = `${namespace}/cancelled/`;
  await waitUntil('every acquisition with an unanswered copy has barred it', async () => {
    return (await keysBelow(rival.coordinator, cancelled)).length === NAMES;
  });
  expect(await keysBelow(rival.coordinator, `${namespace}-control/${cycle}`)).toEqual([]);

  frozen.resume();
  // Not one of them was dropped: the follower reports each as carried out.
  await waitUntil(
    'the late copies were carried out',
    async () => (await handledTxns(frozen)) >= before + messages + 1,
  );
  await waitUntil('so was the control', async () => {
    return (await keysBelow(rival.coordinator, control.replace(/\/\d+$/, '/'))).some(
      ({ key }) => key === control,
    );
  });
  await expectQueues(rival, namespace, [...toRelease, ...toGiveUp], 0);
  await expectQueues(rival, namespace, toGiveUpInLine, 1);
  await Promise.all(inTheirWay.map((hold: Hold) => hold.release()));
  await expectQueues(rival, namespace, names, 0);
  afterControl[Symbol.dispose]();
  await keeper.close();
  expect(await keysBelow(rival.coordinator, cancelled)).toEqual([]);
}

async function expectQueues(
  keeper: Keeper,
  namespace: string,
  names: string[],
  length: number,
): Promise<void> {
  for (const name of names) {
    expect(await queueOf(keeper.coordinator, namespace, name), name).toHaveLength(length);
  }
}
