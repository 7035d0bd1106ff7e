import { randomUUID } from 'node:crypto';
import { connect } from '@lockkeeper/core';
import { startEtcd, startWorker, type Worker } from '@lockkeeper/testkit';
import { expect, it } from 'vitest';

const WORKER = new URL('./lock-worker.ts', import.meta.url);
const ACQUIRES = 25;

it('4 processes × 25 acquires of one name, with holders and waiters killed, run one at a time in queue order', async () => {
  await using etcd = await startEtcd();
  const namespace = randomUUID();
  const start = () => startWorker(WORKER, { args: ['contend', etcd.endpoint, namespace, String(ACQUIRES)] });
  const workers = await Promise.all([start(), start(), start(), start()]);

  // One that holds the lock, stopped first so that it surely holds it when it dies; then one that only waits.
  const holder = workers[0] as Worker;
  await holder.next('begin');
  await killWhileHolding(holder);
  const [waiter, other] = [workers[1] as Worker, workers[2] as Worker];
  await other.next('begin');
  await waiter.kill('SIGKILL');

  const replacements = await Promise.all([start(), start()]);
  const survivors = [...workers.slice(2), ...replacements];
  for (const worker of survivors) {
    await worker.next('done', { timeoutMs: 60_000 });
    expect(await worker.exited).toEqual({ code: 0, signal: null });
  }

  await using keeper = await connect({ hosts: etcd.endpoint, namespace });
  const log = await keeper.coordinator.range({
    key: `${namespace}-log/`,
    rangeEnd: `${namespace}-log0`,
    sort: { by: 'createRevision', order: 'ascend' },
  });
  const history = log.kvs.map((kv) => {
    const [, mark, token] = kv.key.split('/');
    return { mark, token: BigInt(token ?? 0) };
  });
  const tokens = history.filter(({ mark }) => mark === 'begin').map(({ token }) => token);
  const ended = history.filter(({ mark }) => mark === 'end').map(({ token }) => token);
  expect(ended.length).toBeGreaterThanOrEqual(4 * ACQUIRES);
  // A token is the revision at which its holder queued, so rising tokens are queue order.
  expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
  expect(new Set(tokens).size).toBe(tokens.length);
  // One at a time: whatever ends is what began last.
  let current: bigint | undefined;
  for (const { mark, token } of history) {
    if (mark === 'end') expect(token).toBe(current);
    current = mark === 'begin' ? token : undefined;
  }
  const interrupted = tokens.length - ended.length;
  expect(interrupted).toBeGreaterThanOrEqual(1);
  expect(interrupted).toBeLessThanOrEqual(2);
});

/** Stops the process until it is seen stopped inside a critical section, and kills it there. */
async function killWhileHolding(worker: Worker): Promise<void> {
  for (;;) {
    await worker.pause();
    const last = worker.messages.at(-1)?.message.type;
    if (last === 'begin') break;
    await worker.resume();
    await worker.next('begin');
  }
  await worker.kill('SIGKILL');
}
