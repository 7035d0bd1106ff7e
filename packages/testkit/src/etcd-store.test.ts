import { describe, expect, it } from 'vitest';
import { type EtcdMember, startEtcdCluster } from './etcd-cluster.ts';
import type { EtcdCtl } from './etcd-ctl.ts';
import { availableEtcdVersions, startEtcd } from './etcd-server.ts';

const versions = await availableEtcdVersions();

async function value(server: Pick<EtcdCtl, 'ctl'>, key: string): Promise<string> {
  return (await server.ctl(['get', key, '--print-value-only'])).trim();
}

async function revision(server: Pick<EtcdCtl, 'ctl'>): Promise<number> {
  return JSON.parse(await server.ctl(['get', 'any', '--write-out=json'])).header.revision;
}

describe.each(versions)('the data of etcd %s', { timeout: 120_000 }, (version) => {
  it('are compacted, and refuse what needs room while the disk is said to be full', async () => {
    await using etcd = await startEtcd({ version, own: true });
    for (const text of ['1', '2', '3']) await etcd.ctl(['put', 'a', text]);
    await etcd.compact(3n);
    await expect(etcd.ctl(['get', 'a', '--rev=2'])).rejects.toThrow('compacted');
    expect(await etcd.ctl(['get', 'a', '--rev=3', '--print-value-only'])).toBe('2\n');
    expect(await etcd.compact()).toBe(4n);
    await expect(etcd.compact(4n)).rejects.toMatchObject({
      code: 'command-failed',
      message: expect.stringContaining('compacted'),
    });

    {
      await using _ = await etcd.raiseSpaceAlarm();
      expect(await etcd.ctl(['alarm', 'list'])).toContain('NOSPACE');
      await expect(etcd.ctl(['put', 'a', '4'])).rejects.toThrow('database space exceeded');
      expect(await value(etcd, 'a')).toBe('3');
      await etcd.ctl(['del', 'a']);
    }
    expect(await etcd.ctl(['alarm', 'list'])).toBe('');
    await etcd.ctl(['put', 'a', '4']);
  });

  it('outgrow their quota, and have room again when space was reclaimed', async () => {
    await using etcd = await startEtcd({ version, extraArgs: ['--quota-backend-bytes=4000000'] });
    const fill = async () => {
      for (;;) await etcd.ctl(['put', 'a'], { input: 'x'.repeat(1_000_000) });
    };
    await expect(fill()).rejects.toThrow('database space exceeded');
    await etcd.reclaimSpace();
    await etcd.ctl(['put', 'b', '1']);
    expect(await value(etcd, 'a')).toHaveLength(1_000_000);
  });

  it('come back as a snapshot has them', async () => {
    await using etcd = await startEtcd({ version, own: true });
    await etcd.ctl(['put', 'a', 'saved']);
    const snapshot = await etcd.saveSnapshot();
    await etcd.ctl(['put', 'a', 'later']);
    expect(await revision(etcd)).toBe(3);
    const { endpoint } = etcd;
    await etcd.restoreSnapshot(snapshot);
    expect(etcd.endpoint).toBe(endpoint);
    expect(await value(etcd, 'a')).toBe('saved');
    expect(await revision(etcd)).toBe(2);

    const bumped = etcd.restoreSnapshot(snapshot, { bumpRevision: 1_000 });
    if (version.startsWith('3.4.')) {
      await expect(bumped).rejects.toMatchObject({ code: 'no-server' });
      return;
    }
    await bumped;
    expect(await revision(etcd)).toBeGreaterThan(1_000);
    await expect(etcd.ctl(['get', 'a', '--rev=2'])).rejects.toThrow('compacted');
    expect(await value(etcd, 'a')).toBe('saved');
    await expect(etcd.restoreSnapshot('/nonexistent')).rejects.toMatchObject({ code: 'command-failed' });
    await etcd.restart({ wipe: true });
    expect(await value(etcd, 'a')).toBe('');
  });

  it('of a cluster come back on every member', async () => {
    await using cluster = await startEtcdCluster({ version });
    await cluster.ctl(['put', 'a', 'saved']);
    const snapshot = await cluster.saveSnapshot();
    await cluster.ctl(['put', 'a', 'later']);
    await cluster.restoreSnapshot(snapshot);
    for (const member of cluster.members) expect(await value(member, 'a')).toBe('saved');
    const [first, second] = cluster.members as [EtcdMember, EtcdMember];
    {
      await using _ = await first.raiseSpaceAlarm();
      await expect(second.ctl(['put', 'a', 'no'])).rejects.toThrow('database space exceeded');
    }
    await second.ctl(['put', 'a', 'yes']);
    await cluster.reclaimSpace();
    expect(await value(first, 'a')).toBe('yes');
  });
});
