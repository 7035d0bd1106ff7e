import { connect } from '@lockkeeper/core';
import { pausePoint, workerChannel } from '@lockkeeper/testkit/worker';
import { lastWord } from '../support/last-word.ts';

/** A process that closes its keeper while etcd is out of reach. It never ends by `process.exit`. */
const [hosts = '', namespace = ''] = process.argv.slice(2);
const { report } = workerChannel();

const keeper = await connect({ hosts, namespace, ttlMs: 3_000 });
await keeper.lock('x').acquire();
const waiting = keeper.lock('x').acquire();
waiting.catch(() => {});
await pausePoint('holding');
const failed = await keeper
  .lock('y')
  .acquire({ waitTimeoutMs: 500 })
  .catch((error: unknown) => error);
await keeper.close();
// A socket that was closed is counted until the loop has come round to it.
const left = () => process.getActiveResourcesInfo().filter((kind) => /Timeout|TCP/.test(kind));
for (const end = performance.now() + 5_000; left().length > 0 && performance.now() < end; ) {
  await new Promise((resolve) => setImmediate(resolve));
}
await report({ type: 'closed', code: (failed as { code?: string }).code, resources: left() });
lastWord();
