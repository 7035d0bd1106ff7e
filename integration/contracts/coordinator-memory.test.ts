import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { describeCoordinator } from './coordinator-contract.ts';

describeCoordinator('memory', async () => {
  const clock = new VirtualClock();
  const store = memoryStore({ clock });
  return {
    version: 'memory',
    connect: () => memoryCoordinator({ store }),
    passTime: (ms) => clock.advance(ms),
    compact: async (revision) => store.compact(revision),
    [Symbol.asyncDispose]: async () => {},
  };
});
