// G7: a process that is asked to end gives its locks back first.
import { randomUUID } from 'node:crypto';
import { connect } from '@lockkeeper/core';
import { startEtcd, startWorker } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ownTime } from '../support/own-time.ts';

const WORKER = new URL('./lock-worker.ts', import.meta.url);

let etcd: Awaited<ReturnType<typeof startEtcd>>;
beforeAll(async () => {
  etcd = await startEtcd();
});
afterAll(() => etcd.stop());

const start = (namespace: string, what: string) =>
  startWorker(WORKER, { args: ['onSignal', etcd.endpoint, namespace, what] });

describe('keeper.closeOnSignals()', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    '%s frees the locks at once, and ends the process as ever',
    async (signal) => {
      const namespace = randomUUID();
      await using worker = await start(namespace, 'plain');
      await worker.next('granted');
      await using keeper = await connect({ hosts: etcd.endpoint, namespace });
      const waiting = Array.from({ length: 5 }, (_, lock) => keeper.lock(`x${lock}`).acquire());
      const askedAt = ownTime();
      const exit = worker.kill(signal);
      await Promise.all(waiting);
      expect(ownTime() - askedAt).toBeLessThan(5_000);
      expect(await exit).toEqual({ code: null, signal });
    },
  );

  it("leaves the application's own handler and exit code alone", async () => {
    const namespace = randomUUID();
    await using worker = await start(namespace, 'handles');
    await worker.next('granted');
    expect(await worker.kill('SIGTERM')).toEqual({ code: 7, signal: null });
    expect(worker.messages.map(({ message }) => message.type)).toContain('handled');
    await using keeper = await connect({ hosts: etcd.endpoint, namespace });
    expect((await keeper.lock('x0').tryAcquire()).hold).toBeDefined();
  });

  it('waits for every keeper of the process before it ends', async () => {
    const namespace = randomUUID();
    await using worker = await start(namespace, 'two');
    await worker.next('granted');
    expect(await worker.kill('SIGTERM')).toEqual({ code: null, signal: 'SIGTERM' });
    expect(worker.messages.map(({ message }) => message.type)).toContain('drained');
    await using keeper = await connect({ hosts: etcd.endpoint, namespace });
    for (const name of ['slow', 'x0']) expect((await keeper.lock(name).tryAcquire()).hold).toBeDefined();
  });

  it('refuses at the call what it cannot do', async () => {
    await using keeper = await connect({ hosts: etcd.endpoint, namespace: randomUUID() });
    for (const args of [
      ['SIGTERM'],
      [{ drainTimeoutMs: 1 }],
      [['SIGKILL']],
      [['SIGTERM'], { drainTimeoutMs: -5 }],
    ]) {
      expect(() => keeper.closeOnSignals(...(args as []))).toThrow(
        expect.objectContaining({ code: 'invalid-option' }),
      );
    }
  });

  it('a second signal ends a process at once whose work does not stop', async () => {
    await using worker = await start(randomUUID(), 'stuck');
    await worker.next('granted');
    process.kill(worker.pid, 'SIGINT');
    const ended = await Promise.race([
      worker.exited.then(() => 'ended'),
      new Promise((resolve) => setTimeout(() => resolve('drains'), 500)),
    ]);
    expect(ended).toBe('drains');
    const againAt = ownTime();
    expect(await worker.kill('SIGINT')).toEqual({ code: null, signal: 'SIGINT' });
    expect(ownTime() - againAt).toBeLessThan(2_000);
  });
});
