import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import { availableEtcdVersions, type EtcdMember, startEtcdCluster, waitUntil } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import { describeOneMember, MEMBER_FAULTS } from './one-member.ts';
import { keysBelow } from './support.ts';

const versions = await availableEtcdVersions();

for (const version of versions) {
  describeOneMember(version, { faults: MEMBER_FAULTS, ttlMs: 5_000, concurrent: false });
}

describe.each(versions)('etcd %s', (version) => {
  it('F11: all members are killed and replaced by empty ones in turn, and 50 holds with TTL 5 s stand', async () => {
    await using cluster = await startEtcdCluster({ version });
    const namespace = randomUUID();
    const keepers = await Promise.all(
      cluster.members.map((_, index) => {
        const hosts = [...cluster.endpoints.slice(index), ...cluster.endpoints.slice(0, index)];
        return connect({ hosts, namespace, ttlMs: 5_000 });
      }),
    );
    const holds = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        (keepers[index % keepers.length] ?? expect.unreachable()).lock(`lock-${index}`).acquire(),
      ),
    );
    for (const member of cluster.members as readonly EtcdMember[]) {
      await member.kill();
      await sleep(7_000);
      await member.restart({ wipe: true });
      await sleep(5_000);
    }
    expect(holds.filter(({ standing }) => standing === 'lost')).toEqual([]);
    const keys = await keysBelow(keepers[0]?.coordinator ?? expect.unreachable(), `${namespace}/lock/`);
    const kept = new Set(keys.map(({ createRevision }) => createRevision));
    expect(holds.filter(({ token }) => !kept.has(token.revision))).toEqual([]);
    await Promise.all(keepers.map((keeper) => keeper.close()));
  });

  it('F1: a leader that is frozen for three election timeouts, five times over, costs no hold', async () => {
    await using cluster = await startEtcdCluster({ version });
    await using keeper = await connect({ hosts: cluster.endpoints, namespace: randomUUID(), ttlMs: 8_000 });
    const hold = await keeper.lock('x').acquire();
    for (let round = 0; round < 5; round += 1) {
      const leader = await cluster.leader();
      await leader.pause();
      await sleep(3_000);
      leader.resume();
      await waitUntil('renewed after it', () => hold.standing !== 'suspect' && hold.remainingMs() > 5_000);
    }
    expect(hold.signal.reason).toBeUndefined();
    expect(await hold.release()).toMatchObject({ outcome: 'released' });
  });
});
