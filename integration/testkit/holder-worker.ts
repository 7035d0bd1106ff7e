import { connect } from '@lockkeeper/core';
import { pausePoint, workerChannel } from '@lockkeeper/testkit/worker';

await using keeper = await connect({ hosts: process.argv[2] });
await keeper.lock('account').using({}, () => pausePoint('after the grant'));
await workerChannel().report({ type: 'done' });
