import { randomUUID } from 'node:crypto';
import { startEtcd, startWorker } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { livedOnMs } from '../support/last-word.ts';

const WORKER = new URL('./lock-worker.ts', import.meta.url);

let etcd: Awaited<ReturnType<typeof startEtcd>>;
beforeAll(async () => {
  etcd = await startEtcd();
});
afterAll(() => etcd.stop());

describe('a process ends by itself', () => {
  it('after close(), whatever was held, waited for or timed out', async () => {
    await using worker = await startWorker(WORKER, { args: ['closeProperly', etcd.endpoint, randomUUID()] });
    expect(await worker.next('closed')).toMatchObject({ timedOut: 'wait-timeout', standing: 'released' });
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(await livedOnMs(worker)).toBeLessThan(1_000);
    expect(worker.stderr).toBe('');
  });

  it('without close() too, when it neither holds nor waits', async () => {
    await using worker = await startWorker(WORKER, { args: ['idle', etcd.endpoint, randomUUID()] });
    await worker.next('idle');
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(await livedOnMs(worker)).toBeLessThan(5_000);
  });

  it('after connect() failed, with the reason', async () => {
    await using worker = await startWorker(WORKER, {
      args: ['unreachable', 'http://127.0.0.1:1', randomUUID()],
    });
    expect(await worker.next('failed')).toMatchObject({ code: 'unreachable' });
    expect(await worker.exited).toEqual({ code: 0, signal: null });
  });
});

describe('a process stays', () => {
  it('while it holds a lock', async () => {
    await using worker = await startWorker(WORKER, { args: ['hold', etcd.endpoint, randomUUID()] });
    await worker.next('granted');
    const ended = await Promise.race([
      worker.exited,
      new Promise<'still there'>((resolve) => setTimeout(() => resolve('still there'), 3_000)),
    ]);
    expect(ended).toBe('still there');
  });
});
