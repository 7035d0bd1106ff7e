import { type CallOptions, type Coordinator, etcdCoordinator } from '@lockkeeper/core';
import { pausePoint, workerChannel } from '@lockkeeper/testkit/worker';
import { lastWord } from '../support/last-word.ts';
import { put } from './support.ts';

/** What a process has done with its coordinator before it closes it, or comes to its end without closing. */
const CASES: Record<string, (coordinator: Coordinator) => Promise<unknown>> = {
  unused: async () => {},
  connected: (coordinator) => coordinator.describe(),
  watching: async (coordinator) => {
    for (let i = 0; i < 5; i++) {
      coordinator.watch({ key: `k${i}`, startRevision: 1n }, { onEvents: () => {}, onEnd: () => {} });
    }
    await coordinator.txn(put('k0'));
  },
  'timed out': async (coordinator) => {
    await coordinator.range({ key: 'k' });
    await pausePoint('connected');
    const options: CallOptions = { timeoutMs: 200 };
    await Promise.allSettled([
      coordinator.txn(put('k'), options),
      coordinator.range({ key: 'k' }, options),
      coordinator.renew(1n, options),
    ]);
  },
  pending: async (coordinator) => {
    await coordinator.range({ key: 'k' });
    coordinator.watch({ key: 'k', startRevision: 1n }, { onEvents: () => {}, onEnd: () => {} });
    await pausePoint('connected');
    const calls = [coordinator.txn(put('k')), coordinator.range({ key: 'k' }), coordinator.renew(1n)];
    void Promise.allSettled(calls).then((ends) =>
      workerChannel().report({
        type: 'ends',
        codes: ends.map((end) => end.status === 'rejected' && end.reason.code),
      }),
    );
  },
  down: async (coordinator) => {
    coordinator.watch({ key: 'k', startRevision: 1n }, { onEvents: () => {}, onEnd: () => {} });
    await Promise.allSettled([coordinator.txn(put('k')), coordinator.range({ key: 'k' })]);
  },
  'not closed': async (coordinator) => {
    const watch = coordinator.watch({ key: 'k', startRevision: 1n }, { onEvents: () => {}, onEnd: () => {} });
    await coordinator.txn(put('k'));
    watch.close();
  },
};

const [name = '', hosts = ''] = process.argv.slice(2);
const coordinator = etcdCoordinator({ hosts });
await CASES[name]?.(coordinator);
if (name !== 'not closed') await Promise.all([coordinator.close(), coordinator.close()]);
await workerChannel().report({ type: 'done' });
lastWord();
