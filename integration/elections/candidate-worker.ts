// A candidate in a process of its own: says when it leads, and when its term has ended.
import { connect } from '@lockkeeper/core';
import { workerChannel } from '@lockkeeper/testkit/worker';

const [hosts = '', namespace = ''] = process.argv.slice(2);
const { report } = workerChannel();
const keeper = await connect({ hosts, namespace, ttlMs: 6_000 });
for await (const term of keeper.election('x').terms({ value: String(process.pid) })) {
  await report({ type: 'leads', revision: term.token.revision });
  await new Promise((resolve) => term.signal.addEventListener('abort', resolve, { once: true }));
  await report({ type: 'ended', reason: String(term.signal.reason) });
}
