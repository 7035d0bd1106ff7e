import { setTimeout as sleep } from 'node:timers/promises';
import { etcdCoordinator } from '@lockkeeper/core';
import { availableEtcdVersions, startEtcd } from '@lockkeeper/testkit';
import { expect, test } from 'vitest';
import { describeCoordinator } from './coordinator-contract.ts';

const versions = await availableEtcdVersions();

test('an etcd is in reach', () => {
  expect(versions).not.toEqual([]);
});

for (const version of versions) {
  describeCoordinator(`etcd ${version}`, async () => {
    const server = await startEtcd({ version });
    return {
      version: `etcd ${server.version}`,
      connect: () => etcdCoordinator({ hosts: server.endpoint }),
      passTime: (ms) => sleep(ms),
      compact: async (revision) => {
        await server.compact(revision);
      },
      [Symbol.asyncDispose]: () => server.stop(),
    };
  });
}
