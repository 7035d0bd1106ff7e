// Starts a server in a container, says which, and leaves it to whoever ends this process.
import { startRedis } from '@lockkeeper/testkit';
import { workerChannel } from '@lockkeeper/testkit/worker';

export type LeavingSays = { readonly type: 'started'; readonly id: string };

const server = await startRedis();
const { report, onCommand } = workerChannel<LeavingSays>();
onCommand(() => undefined);
await report({ type: 'started', id: server.container?.id ?? '' });
