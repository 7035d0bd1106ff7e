// Runs under node:test, as its users would write it: plain functions and `await using`, no fixtures.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { type EtcdServer, lateWrite, startEtcd, startWorker } from '@lockkeeper/testkit';

let etcd: EtcdServer;
before(async () => {
  etcd = await startEtcd();
});
after(() => etcd.stop());

test('a late write is refused', async () => {
  const guard = memoryGuard({ resource: 'account' });
  let account = '';
  const { late, newer } = await lateWrite({
    etcd,
    lock: 'account',
    claims: [guard],
    read: () => account,
    write: (hold, read) => guard.run(hold.token, () => (account = `${read}${hold.token.revision} `)),
  });
  assert.equal(late.outcome, 'refused');
  assert.equal(account, `${newer.token.revision} `);
});

test('a process is paused after it was granted a lock', async () => {
  await using worker = await startWorker(new URL('./holder-worker.ts', import.meta.url), {
    args: [etcd.endpoint],
    pauseAt: { 'after the grant': {} },
  });
  const pause = worker.pauseAt('after the grant');
  await pause.reached();
  await pause.resume();
  await worker.next('done');
});
