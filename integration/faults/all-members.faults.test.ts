import { setTimeout as sleep } from 'node:timers/promises';
import { availableEtcdVersions, type EtcdCluster, startEtcdCluster } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outlast } from './outlast.ts';

const TTL_MS = 2_000;
const TIMES = [0.3, 1, 3, 20] as const;

describe.each(await availableEtcdVersions())('all members of etcd %s at once', (version) => {
  let cluster: EtcdCluster;
  beforeAll(async () => {
    cluster = await startEtcdCluster({ version });
  });
  afterAll(() => cluster.stop());

  describe.each(TIMES)('for %d × TTL', (times) => {
    it.each(['kept', 'wiped'] as const)('killed, and back with their data %s (F3)', async (data) => {
      const pass = () => cluster.restart({ forMs: times * TTL_MS, wipe: data === 'wiped' });
      const { lost } = await outlast({ hosts: cluster.endpoints, ttlMs: TTL_MS, data, pass });
      if (times > 1 || data === 'wiped') expect(lost).toBeGreaterThan(0);
    });

    it('frozen', async () => {
      const pass = async () => {
        await Promise.all(cluster.members.map((member) => member.pause()));
        await sleep(times * TTL_MS);
        for (const member of cluster.members) member.resume();
      };
      const { lost } = await outlast({ hosts: cluster.endpoints, ttlMs: TTL_MS, data: 'kept', pass });
      if (times > 1) expect(lost).toBeGreaterThan(0);
    });
  });
});
