import { connect } from '@lockkeeper/core';
import { describe, expect, it } from 'vitest';
import { type EtcdMember, startEtcdCluster } from './etcd-cluster.ts';
import { availableEtcdVersions } from './etcd-server.ts';
import { processState } from './process-table.ts';

const versions = await availableEtcdVersions();

async function value(member: Pick<EtcdMember, 'ctl'>, key: string): Promise<string> {
  return (await member.ctl(['get', key, '--print-value-only'])).trim();
}

describe.each(versions)('a cluster of etcd %s', { timeout: 120_000 }, (version) => {
  it('goes on without a frozen or killed member, elects anew, and comes back with and without data', async () => {
    await using cluster = await startEtcdCluster({ version });
    expect(cluster.version).toBe(version);
    expect(cluster.members.map(({ endpoint }) => endpoint)).toEqual(cluster.endpoints);
    await cluster.ctl(['put', 'a', '1']);

    const leader = await cluster.leader();
    const [first, second] = (await cluster.followers()) as [EtcdMember, EtcdMember];
    expect(new Set([leader, first, second])).toEqual(new Set(cluster.members));
    await first.pause();
    await leader.ctl(['put', 'a', '2']);
    first.resume();
    expect(await value(first, 'a')).toBe('2');

    await leader.kill();
    const next = await cluster.leader();
    expect([first, second]).toContain(next);
    await next.ctl(['put', 'a', '3']);
    await leader.restart();
    expect(await value(leader, 'a')).toBe('3');

    // Wiped on its own it joins the others and gets their data.
    await leader.restart({ wipe: true });
    expect(await value(leader, 'a')).toBe('3');
    expect((await cluster.ctl(['member', 'list'])).trim().split('\n')).toHaveLength(3);

    await cluster.restart();
    expect(await value(cluster, 'a')).toBe('3');
    await cluster.restart({ wipe: true });
    expect(await value(cluster, 'a')).toBe('');

    const pids = cluster.members.map(({ pid }) => pid as number);
    await cluster.stop();
    expect(pids.map((pid) => processState(pid))).toEqual(['gone', 'gone', 'gone']);
  });

  it('cuts a member off from the others, which its clients still reach', async () => {
    await using cluster = await startEtcdCluster({ version, isolatable: true });
    const leader = await cluster.leader();
    {
      using _ = cluster.isolate(leader);
      let next = leader;
      while (next === leader) next = await cluster.leader();
      await next.ctl(['put', 'a', '1']);
      const stale = ['get', 'a', '--consistency=s', '--print-value-only'];
      expect(await leader.ctl(stale)).toBe('');
      await expect(leader.ctl(['put', 'a', '2', '--command-timeout=2s'])).rejects.toMatchObject({
        code: 'command-failed',
      });
    }
    await expect.poll(() => value(leader, 'a'), { timeout: 20_000 }).toBe('1');
  });

  it('cuts members off from clients and from each other, and closes no connection for it', async () => {
    await using cluster = await startEtcdCluster({ version, isolatable: true, proxied: true });
    const leader = await cluster.leader();
    const followers = await cluster.followers();
    const other = followers[0] as EtcdMember;
    expect(cluster.endpoints).toEqual(cluster.members.map(({ proxy }) => proxy?.url));

    const client = await connect({ hosts: leader.endpoint });
    const hold = await client.lock('x').acquire();
    const accepted = leader.proxy?.accepted;
    {
      // A member that only clients do not reach goes on leading.
      using _ = cluster.partition([leader], ['clients']);
      await expect(leader.ctl(['get', 'a'], { timeoutMs: 300 })).rejects.toMatchObject({
        code: 'command-failed',
      });
      await other.ctl(['put', 'a', '1']);
      expect(await cluster.leader()).toBe(leader);
    }
    expect((await hold.release()).outcome).toBe('released');
    expect((await client.lock('x').acquire()).standing).toBe('held');
    // One more: that of etcdctl.
    expect(leader.proxy?.accepted).toBe((accepted ?? 0) + 1);
    await client.close();

    {
      // The majority has the clients, the minority nobody.
      using _ = cluster.partition([leader], [...followers, 'clients']);
      let next = leader;
      while (next === leader) next = await cluster.leader();
      await other.ctl(['put', 'a', '2']);
    }
    await expect.poll(() => value(leader, 'a'), { timeout: 20_000 }).toBe('2');
  });
});

it('takes no partition that is none', async () => {
  await using cluster = await startEtcdCluster({ members: 2 });
  const [a, b] = cluster.members as [EtcdMember, EtcdMember];
  expect(() => cluster.partition([a])).toThrow('groups have 1 members; expected two groups or more');
  expect(() => cluster.partition([a], [a, b])).toThrow('in two groups');
  expect(() => cluster.partition([a], [{ ...b }])).toThrow('m2 at');
  expect(() => cluster.partition([a], [b])).toThrow('isolatable');
  expect(() => cluster.partition([a], ['clients'])).toThrow('proxied');
});

it('reports a member that does not start, in its own words', async () => {
  const memberExtraArgs = [[], ['--no-such-flag']];
  const error = await startEtcdCluster({ memberExtraArgs }).catch((reason: Error) => reason);
  expect(error).toMatchObject({ code: 'start-failed', message: expect.stringContaining('no-such-flag') });
});

it('wants isolatable for isolate()', async () => {
  await using cluster = await startEtcdCluster({ members: 1 });
  const [only] = cluster.members as [EtcdMember];
  expect(() => cluster.isolate(only)).toThrow(/isolatable/);
  expect(await cluster.leader()).toBe(only);
});
