import { afterEach, describe, expect, it } from 'vitest';
import { type LoggedMessage, startWorker, type Worker, type WorkerOptions } from './worker.ts';

describe('a worker', { timeout: 60_000 }, () => {
  let worker: Worker | undefined;
  afterEach(() => worker?.kill());

  async function start(options?: WorkerOptions): Promise<Worker> {
    worker = await startWorker(new URL('./fixtures/echo-worker.ts', import.meta.url), options);
    return worker;
  }

  it('gets arguments and environment, and answers commands with bigints intact', async () => {
    const worker = await start({ args: ['a b', 'c'], env: { WORKER_TEST: 'yes' } });
    expect(await worker.next('ready')).toMatchObject({ args: ['a b', 'c'], fromEnv: 'yes' });
    worker.send({ type: 'echo', revision: 2n ** 63n - 1n });
    expect(await worker.next('echoed')).toEqual({ type: 'echoed', revision: 2n ** 63n - 1n });
  });

  it('hands out each message once, in the order asked for', async () => {
    const worker = await start();
    for (const n of [1, 2, 3]) worker.send({ type: 'echo', n });
    expect(await worker.next((message) => message['n'] === 2)).toMatchObject({ n: 2 });
    expect(await worker.next('echoed')).toMatchObject({ n: 1 });
    expect(await worker.next('echoed')).toMatchObject({ n: 3 });
    await expect(worker.next('echoed', { timeoutMs: 50 })).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('did not send "echoed" within 50 ms; it sent: ready, echoed'),
    });
    expect(worker.messages.map(({ message }) => message.type)).toEqual([
      'ready',
      'echoed',
      'echoed',
      'echoed',
    ]);
    expect(worker.messages.map(({ atMs }) => atMs)).toEqual(worker.messages.map(({ atMs }) => atMs).sort());
  });

  it('tells listeners what it reports, before it is read, until they are disposed', async () => {
    const worker = await start();
    await worker.next('ready');
    const heard: LoggedMessage[] = [];
    const listening = worker.onMessage((logged) => heard.push(logged));
    worker.send({ type: 'echo', n: 1 });
    worker.send({ type: 'echo', n: 2 });
    await worker.next((message) => message['n'] === 2);
    expect(heard.map(({ message }) => message['n'])).toEqual([1, 2]);
    expect(heard).toEqual(worker.messages.slice(1));
    listening[Symbol.dispose]();
    worker.send({ type: 'echo', n: 3 });
    await worker.next((message) => message['n'] === 3);
    expect(heard).toHaveLength(2);
  });

  it('runs nothing while paused, and goes on when resumed', async () => {
    const worker = await start();
    worker.send({ type: 'tick' });
    await worker.next('tick');
    await worker.pause();
    expect(worker.isPaused).toBe(true);
    // What was sent before the stop may still arrive; a command sent after it must not be answered.
    worker.send({ type: 'echo' });
    await expect(worker.next('echoed', { timeoutMs: 300 })).rejects.toMatchObject({ code: 'timeout' });
    worker.resume();
    await worker.next('echoed');
    expect(worker.isPaused).toBe(false);
  });

  it('waits at a point until it may proceed, its timers running', async () => {
    const worker = await start();
    worker.send({ type: 'tick' });
    worker.send({ type: 'wait at', name: 'the gate' });
    await worker.reached('the gate');
    await worker.next('tick');
    worker.proceed('the gate');
    await worker.next('went on');
  });

  it('freezes between two instructions: no timer that fell due comes first', async () => {
    const worker = await start();
    worker.send({ type: 'freeze at', name: 'the write' });
    await worker.frozen('the write');
    expect(worker.isPaused).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 150));
    worker.resume();
    expect(await worker.next('after the freeze')).toMatchObject({ timerFired: false });
  });

  it('tells how it ended, with what it wrote to stderr', async () => {
    const worker = await start();
    worker.send({ type: 'fail' });
    await expect(worker.next('never')).rejects.toMatchObject({
      code: 'not-running',
      message: expect.stringMatching(
        /ended before it sent "never": it ended by exit code 1[\s\S]*broken on purpose/,
      ),
    });
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(() => worker.send({ type: 'echo' })).toThrow(/cannot be spoken to: it ended by exit code 1/);
    await expect(worker.pause()).rejects.toMatchObject({ code: 'not-running' });
  });

  it.each(['SIGKILL', 'SIGTERM'] as const)(
    'is killed by %s while paused, and once more to no effect',
    async (name) => {
      const worker = await start();
      await worker.next('ready');
      await worker.pause();
      expect(await worker.kill(name)).toEqual({ code: null, signal: name });
      expect(await worker.kill()).toEqual({ code: null, signal: name });
    },
  );

  it('is reported when its file does not exist', async () => {
    worker = await startWorker(new URL('./fixtures/no-such-file.mjs', import.meta.url));
    await expect(worker.next('ready')).rejects.toThrow(/no-such-file\.mjs/);
  });
});
