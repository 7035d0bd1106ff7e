import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { describeLocks } from './lock-contract.ts';

describeLocks('memory, virtual time', async () => {
  const clock = new VirtualClock();
  const store = memoryStore({ clock });
  return {
    client: () => memoryCoordinator({ store }),
    passTime: (ms) => clock.advance(ms),
    [Symbol.asyncDispose]: async () => {},
  };
});
