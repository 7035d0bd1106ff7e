import { startEtcd } from '@lockkeeper/testkit';
import { it } from 'vitest';
import { keepOneLeader } from './steady-leader.ts';

it('E1: whatever happens to the other candidates for 10 s, the leader stays', async () => {
  await using etcd = await startEtcd();
  await keepOneLeader(etcd, 10_000);
});
