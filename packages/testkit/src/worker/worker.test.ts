import { readFileSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { canShiftClock } from '../find-tools.ts';
import type { EchoCommand, EchoMessage } from '../fixtures/echo-worker.ts';
import { TemporaryFolder } from '../owned-server.ts';
import { processState, treeOf } from '../process-table.ts';
import { shiftedClock } from '../shifted-clock.ts';
import type { PauseOptions } from './pause.ts';
import { type LoggedMessage, startWorker, type Worker, type WorkerOptions } from './worker.ts';

type Echo = Worker<EchoMessage, EchoCommand>;

describe('a worker', { timeout: 60_000 }, () => {
  let worker: Echo | undefined;
  afterEach(() => worker?.kill());

  async function start(options?: WorkerOptions): Promise<Echo> {
    worker = await startWorker(new URL('../fixtures/echo-worker.ts', import.meta.url), options);
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
    expect(await worker.next((message) => 'n' in message && message.n === 2)).toMatchObject({ n: 2 });
    expect(await worker.next('echoed')).toMatchObject({ n: 1 });
    expect(await worker.next('echoed')).toMatchObject({ n: 3 });
    await expect(worker.next('echoed', { timeoutMs: 50 })).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('did not come to "echoed" within 50 ms; it sent: ready, echoed'),
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
    const heard: LoggedMessage<EchoMessage>[] = [];
    const listening = worker.onMessage((logged) => heard.push(logged));
    worker.send({ type: 'echo', n: 1 });
    worker.send({ type: 'echo', n: 2 });
    await worker.next((message) => 'n' in message && message.n === 2);
    expect(heard.map(({ message }) => message)).toMatchObject([{ n: 1 }, { n: 2 }]);
    expect(heard).toEqual(worker.messages.slice(1));
    listening[Symbol.dispose]();
    worker.send({ type: 'echo', n: 3 });
    await worker.next((message) => 'n' in message && message.n === 3);
    expect(heard).toHaveLength(2);
  });

  it('runs nothing while paused, and goes on when resumed', async () => {
    const worker = await start();
    worker.send({ type: 'tick' });
    await worker.next('tick');
    await worker.pause();
    expect(processState(worker.pid)).toBe('stopped');
    // What was sent before the stop may still arrive; a command sent after it must not be answered.
    worker.send({ type: 'echo' });
    await expect(worker.next('echoed', { timeoutMs: 300 })).rejects.toMatchObject({ code: 'timeout' });
    await worker.resume();
    await worker.next('echoed');
  });

  it('returns at once from a point where nobody ordered a pause', async () => {
    const worker = await start();
    worker.send({ type: 'pass', name: 'the gate' });
    expect(await worker.next('passed')).toMatchObject({ timerFired: false });
  });

  it('waits at a point until it may go on, its timers running', async () => {
    const worker = await start();
    worker.send({ type: 'tick' });
    const pause = worker.pauseAt('the gate', { how: 'wait' });
    worker.send({ type: 'pass', name: 'the gate' });
    await pause.reached();
    await worker.next('tick');
    await pause.resume();
    await worker.next('passed');
  });

  it.each(['sigstop', 'block-event-loop'] as const)(
    'pauses between two instructions by %s: no timer that fell due comes first, and only once',
    async (how) => {
      const worker = await start();
      const pause = worker.pauseAt('the write', { how });
      worker.send({ type: 'pass', name: 'the write' });
      await pause.reached();
      expect(processState(worker.pid)).toBe(how === 'sigstop' ? 'stopped' : 'running');
      worker.send({ type: 'echo' });
      await expect(worker.next('echoed', { timeoutMs: 150 })).rejects.toMatchObject({ code: 'timeout' });
      await pause.resume();
      const { timerFired, tookMs } = await worker.next('passed');
      expect(timerFired).toBe(false);
      expect(tookMs).toBeGreaterThanOrEqual(150);
      await worker.next('echoed');
      worker.send({ type: 'pass', name: 'the write' });
      await worker.next('passed');
    },
  );

  it('goes on by itself after the time for which its event loop was to be blocked', async () => {
    const worker = await start();
    const pause = worker.pauseAt('the write', { how: 'block-event-loop', forMs: 200 });
    worker.send({ type: 'pass', name: 'the write' });
    await pause.reached();
    const { timerFired, tookMs } = await worker.next('passed');
    expect(timerFired).toBe(false);
    expect(tookMs).toBeGreaterThanOrEqual(200);
  });

  it('knows from its first line on where to pause', async () => {
    const worker = await start({ pauseAt: { 'when ready': {} } });
    const pause = worker.pauseAt('when ready');
    await worker.next('ready');
    await pause.reached();
    expect(processState(worker.pid)).toBe('stopped');
    worker.send({ type: 'echo' });
    await pause.resume();
    await worker.next('echoed');
  });

  it('does not pause where the order was taken back', async () => {
    const worker = await start();
    for (const how of ['wait', 'sigstop'] as const) {
      await worker.pauseAt('the gate', { how }).resume();
      worker.send({ type: 'pass', name: 'the gate' });
      await worker.next('passed');
    }
  });

  it('says which pause it cannot do, and which point it did not come to', async () => {
    const worker = await start();
    expect(() => worker.pauseAt('the gate', { how: 'container' })).toThrow(
      'pauseAt: how is "container"; worker echo-worker.ts can pause by sigstop, block-event-loop, wait',
    );
    expect(() => worker.pauseAt('the gate', { how: 'wait', forMs: 1 })).toThrow(/forMs is for how/);
    const pause = worker.pauseAt('the gate');
    await expect(pause.reached({ timeoutMs: 50 })).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('did not come to the point "the gate" within 50 ms'),
    });
    await worker.kill();
    await expect(pause.reached()).rejects.toMatchObject({ code: 'not-running' });
    await pause.resume();
  });

  it('tells how it ended, with what it wrote to stderr', async () => {
    const worker = await start();
    worker.send({ type: 'fail' });
    await expect(worker.next('echoed')).rejects.toMatchObject({
      code: 'not-running',
      message: expect.stringMatching(
        /ended before it came to "echoed": it ended by exit code 1[\s\S]*broken on purpose/,
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

  it.skipIf(!canShiftClock())('runs on a shifted clock, pauses included', async () => {
    await using clock = shiftedClock({ offsetMs: 3_600_000 });
    const worker = await start({ env: clock.env });
    const pause = worker.pauseAt('the write');
    worker.send({ type: 'pass', name: 'the write' });
    await pause.reached();
    await pause.resume();
    expect((await worker.next('passed')).timerFired).toBe(false);
    const aheadMs = (worker.messages.at(-1)?.atMs ?? 0) - Date.now();
    expect(aheadMs).toBeGreaterThan(3_500_000);
  });

  it('refuses a command that no message can carry, and goes on', async () => {
    const worker = await start();
    expect(() => worker.send({ type: 'echo', n: (() => 1) as unknown as number })).toThrow(
      /echo-worker\.ts cannot be told that: \(\) => 1 could not be cloned/,
    );
    worker.send({ type: 'echo', n: 2 });
    expect(await worker.next('echoed')).toMatchObject({ n: 2 });
  });

  it.each([
    [{ how: 'sleep' }, /how is "sleep"; worker idle\.mjs can pause by sigstop/],
    ['sigstop', /pauseAt: x is "sigstop"; expected options/],
  ])('that is to pause as nobody can, %o, does not stay', async (pause, message) => {
    const folder = new TemporaryFolder('lockkeeper-test-');
    onTestFinished(() => folder.remove());
    const file = join(folder.path, 'idle.mjs');
    await writeFile(file, 'setInterval(() => {}, 1_000);');
    const childrenBefore = treeOf(process.pid);
    const started = startWorker(file, { pauseAt: { x: pause as PauseOptions } });
    await expect(started).rejects.toMatchObject({
      code: 'invalid-option',
      message: expect.stringMatching(message),
    });
    const isLeft = (pid: number) => !childrenBefore.includes(pid) && commandOf(pid).includes('idle.mjs');
    expect(treeOf(process.pid).filter(isLeft)).toEqual([]);
  });

  it('names what is wrong with a file, a point and a time', async () => {
    await expect(startWorker(undefined as never)).rejects.toThrow(/worker is "undefined"; expected the path/);
    await expect(start({ args: 'a b' as never })).rejects.toThrow('args is "a b"; expected a list of texts');
    await expect(startWorker(new URL('http://x/y.js'))).rejects.toThrow(/worker is "http:\/\/x\/y.js"/);
    const worker = await start();
    expect(() => worker.pauseAt('')).toThrow(/the point is ""/);
    for (const timeoutMs of [Number.NaN, -1, 2 ** 31, '5' as never]) {
      await expect(worker.next('tick', { timeoutMs })).rejects.toThrow(
        /timeoutMs is .*; expected milliseconds/,
      );
      await expect(worker.pauseAt('x').reached({ timeoutMs })).rejects.toMatchObject({
        code: 'invalid-option',
      });
    }
  });

  it('says so where the temporary folder is no place for it', async () => {
    onTestFinished(() => void vi.unstubAllEnvs());
    vi.stubEnv('TMPDIR', '/no/such/folder');
    await expect(start()).rejects.toThrow(/no folder can be made below "\/no\/such\/folder" \(TMPDIR\)/);
    vi.unstubAllEnvs();
    const folder = new TemporaryFolder(`lockkeeper-${'long-'.repeat(20)}`);
    onTestFinished(() => folder.remove());
    vi.stubEnv('TMPDIR', folder.path);
    await expect(start()).rejects.toMatchObject({
      code: 'start-failed',
      message: expect.stringMatching(/the temporary folder \(TMPDIR\) is too long/),
    });
    expect(await readdir(folder.path)).toEqual([]);
  });

  it('is reported when its file does not exist', async () => {
    worker = await startWorker(new URL('../fixtures/no-such-file.mjs', import.meta.url));
    await expect(worker.next('echoed')).rejects.toThrow(/no-such-file\.mjs/);
  });
});

/** A pid that has gone has none. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
