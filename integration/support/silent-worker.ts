import { connect } from '@lockkeeper/core';
import { memoryCoordinator } from '@lockkeeper/core/memory';
import { FaultyCoordinator } from '@lockkeeper/testkit';
import { workerChannel } from '@lockkeeper/testkit/worker';

/** A process with all kinds of trouble and no logger. */
const connection = new FaultyCoordinator(memoryCoordinator());
const keeper = await connect({ coordinator: connection, ttlMs: 1_000 });
const hold = await keeper.lock('x').acquire();
connection.goSilent();
const { signal } = hold;
await new Promise((resolve) => signal.addEventListener('abort', resolve));
await workerChannel().report({ type: 'lost', cause: signal.reason.lossCause });
await hold.release();
await keeper.close();
