import { setTimeout as sleep } from 'node:timers/promises';
import { etcdCoordinator } from '@lockkeeper/core';
import { startEtcd } from '@lockkeeper/testkit';
import { afterAll } from 'vitest';
import { describeLocks } from './lock-contract.ts';

/** The lock contract on a real etcd, which lives as long as the test file. */
export async function describeLocksOnEtcd(version: 'oldest' | 'newest'): Promise<void> {
  const server = await startEtcd({ version });
  afterAll(() => server.stop());
  describeLocks(`etcd ${server.version} (${server.route})`, async () => ({
    client: () => etcdCoordinator({ hosts: server.endpoint }),
    passTime: (ms) => sleep(ms),
    [Symbol.asyncDispose]: async () => {},
  }));
}
