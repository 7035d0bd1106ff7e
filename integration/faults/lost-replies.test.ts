import { randomUUID } from 'node:crypto';
import { connect } from '@lockkeeper/core';
import {
  chunkContaining,
  type EtcdCluster,
  type EtcdMember,
  startEtcdCluster,
  startTcpProxy,
  waitUntil,
} from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ownTime } from '../support/own-time.ts';
import { describeLateCopies } from './late-copies.ts';
import { handledTxns, queueOf, timed } from './support.ts';

describeLateCopies('newest', 5);

describe('a reply that is lost on the wire', () => {
  let cluster: EtcdCluster;
  beforeAll(async () => {
    cluster = await startEtcdCluster({ version: 'newest' });
  });
  afterAll(() => cluster.stop());

  async function lossyKeeper() {
    const namespace = randomUUID();
    const [first, ...rest] = cluster.members as [EtcdMember, ...EtcdMember[]];
    const others = rest.map(({ endpoint }) => endpoint);
    const proxy = await startTcpProxy(first.endpoint);
    const keeper = await connect({ hosts: [proxy.url, ...others], namespace, ttlMs: 6_000 });
    await (await keeper.lock('warm-up').acquire()).release();
    const rival = await connect({ hosts: others, namespace });
    return {
      namespace,
      first,
      proxy,
      keeper,
      rival,
      async [Symbol.asyncDispose]() {
        await Promise.all([keeper.close(), rival.close()]);
        await proxy.close();
      },
    };
  }

  it('A5: of an enqueue, is made up for by another member: the token is that of the first commit', async () => {
    await using world = await lossyKeeper();
    const { first, proxy, keeper, rival, namespace } = world;
    const before = await handledTxns(first);
    using reply = proxy.loseReply({ match: chunkContaining('lock/x/') });
    const hold = await keeper.lock('x').acquire({ waitTimeoutMs: 20_000 });
    await reply.lost;
    expect(await handledTxns(first)).toBe(before + 1);
    const [own, ...others] = await queueOf(rival.coordinator, namespace, 'x');
    expect(own).toMatchObject({ createRevision: hold.token.revision, modRevision: hold.token.revision });
    expect(others).toEqual([]);
    expect((await rival.lock('x').tryAcquire()).holder?.createRevision).toBe(hold.token.revision);
    expect(await hold.release()).toMatchObject({ outcome: 'released' });
    const next = await rival.lock('x').acquire({ waitTimeoutMs: 0 });
    expect(next.token.revision).toBeGreaterThan(hold.token.revision);
  });

  it('C1: of a release, is asked for again, and the repeat spares the next hold of the same client', async () => {
    await using world = await lossyKeeper();
    const { proxy, keeper, rival, namespace } = world;
    const first = await keeper.lock('x').acquire();
    using reply = proxy.loseReply({ match: chunkContaining('lock/x/') });
    const releasing = first.release();
    await reply.lost;
    // The lock gets free; only the releaser does not know.
    await waitUntil('released', async () => (await queueOf(rival.coordinator, namespace, 'x')).length === 0);
    const between = await rival.lock('x').acquire({ waitTimeoutMs: 0 });
    const second = keeper.lock('x').acquire();
    expect(await releasing).toMatchObject({ outcome: 'released' });
    await between.release();
    const hold = await second;
    expect(hold.token.revision).toBeGreaterThan(between.token.revision);
    expect(hold.standing).toBe('held');
    expect(await queueOf(rival.coordinator, namespace, 'x')).toHaveLength(1);
    expect(await hold.release()).toMatchObject({ outcome: 'released' });
  });

  it('A11: replies that take longer than one try may: acquired well within a TTL of their arriving again', async () => {
    const [member] = cluster.members as [EtcdMember];
    await using proxy = await startTcpProxy(member.endpoint);
    await using keeper = await connect({ hosts: proxy.url, namespace: randomUUID(), ttlMs: 6_000 });
    await (await keeper.lock('warm-up').acquire()).release();
    const before = await handledTxns(member);
    const delay = proxy.blackhole('reply');
    const acquiring = timed(() => keeper.lock('x').acquire({ waitTimeoutMs: 60_000 }));
    // One try may take a third of the TTL.
    await waitUntil(
      'a second try was carried out as well',
      async () => (await handledTxns(member)) >= before + 2,
    );
    const arrivingAt = ownTime();
    delay.restore();
    const { value: hold, error } = await acquiring;
    expect(error).toBeUndefined();
    expect(hold?.standing).toBe('held');
    expect(ownTime() - arrivingAt).toBeLessThan(3_000);
    expect(await hold?.release()).toMatchObject({ outcome: 'released' });
  });
});
