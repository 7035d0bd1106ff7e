import { setTimeout as sleep } from 'node:timers/promises';
import { type Coordinator, connect, etcdCoordinator } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { startEtcd } from '@lockkeeper/testkit';
import { describeCoordinator } from './coordinator-contract.ts';

/** What a keeper gives its users: group commit, above all else that it puts on a coordinator. */
async function joined(coordinator: Coordinator): Promise<Coordinator> {
  return (await connect({ coordinator, namespace: 'joined' })).coordinator;
}

describeCoordinator('memory, under group commit', async () => {
  const clock = new VirtualClock();
  const store = memoryStore({ clock });
  return {
    version: 'memory',
    connect: () => joined(memoryCoordinator({ store })),
    passTime: (ms) => clock.advance(ms),
    compact: async (revision) => store.compact(revision),
    [Symbol.asyncDispose]: async () => {},
  };
});

describeCoordinator('etcd, under group commit', async () => {
  const server = await startEtcd();
  return {
    version: `etcd ${server.version}`,
    connect: () => joined(etcdCoordinator({ hosts: server.endpoint })),
    passTime: (ms) => sleep(ms),
    compact: async (revision) => {
      await server.ctl(['compact', `${revision}`]);
    },
    [Symbol.asyncDispose]: () => server.stop(),
  };
});
