import { type EtcdServer, startEtcd } from '@lockkeeper/testkit';
import { afterAll, beforeAll, it } from 'vitest';
import { failToAcquire, waitInVain } from './leaks.ts';

let etcd: EtcdServer;
beforeAll(async () => {
  etcd = await startEtcd({ version: 'newest', own: true });
});
afterAll(() => etcd.stop());

it('A19: 2,000 waits in vain leave no lease, key, watch, stream or timer', async () => {
  await waitInVain(etcd, 2_000);
});

it('G1: 5,000 acquires that fail in other ways leave none either', async () => {
  await failToAcquire(etcd, 5_000);
});
