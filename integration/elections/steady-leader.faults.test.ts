import { availableEtcdVersions, startEtcd } from '@lockkeeper/testkit';
import { it } from 'vitest';
import { keepOneLeader } from './steady-leader.ts';

it.each(await availableEtcdVersions())('E1: the leader stays for 60 s, on etcd %s', async (version) => {
  await using etcd = await startEtcd({ version });
  await keepOneLeader(etcd, 60_000);
});
