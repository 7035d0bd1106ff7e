import { etcdCoordinator } from '@lockkeeper/core';
import { startEtcd } from '@lockkeeper/testkit';
import { it } from 'vitest';
import { countUnderLosses } from './random-losses.ts';

it('F7: 3 × 50 guarded increments under random losses of replies, on etcd', async () => {
  await using etcd = await startEtcd();
  await countUnderLosses(() => etcdCoordinator({ hosts: etcd.endpoint }), 50);
});
