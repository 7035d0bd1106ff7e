import { type EtcdServer, startEtcd, startWorker, type Worker } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { livedOnMs } from '../support/last-word.ts';
import { closedPort } from './support.ts';

const WORKER = new URL('./closing-worker.ts', import.meta.url);

/** One that waits once it is connected. */
const startWaiting = (name: string, server: EtcdServer) =>
  startWorker(WORKER, { args: [name, server.endpoint], pauseAt: { connected: { how: 'wait' } } });

/** How long the process lived on after its last word. */
async function endOf(worker: Worker): Promise<number> {
  await worker.next('done');
  const { code, signal } = await worker.exited;
  expect(worker.stderr).toBe('');
  expect({ code, signal }).toEqual({ code: 0, signal: null });
  return livedOnMs(worker);
}

describe('a process ends by itself within a second', () => {
  let server: EtcdServer;
  beforeAll(async () => {
    server = await startEtcd({ version: 'newest', own: true });
  });
  afterAll(() => server.stop());

  test.each(['unused', 'connected', 'watching'])('after close: %s', async (name) => {
    await using worker = await startWorker(WORKER, { args: [name, server.endpoint] });
    expect(await endOf(worker)).toBeLessThan(1_000);
  });

  test('after close, with calls that had timed out at a frozen member', async () => {
    await using worker = await startWaiting('timed out', server);
    const connected = worker.pauseAt('connected');
    await connected.reached();
    await server.pause();
    await connected.resume();
    expect(await endOf(worker)).toBeLessThan(1_000);
    server.resume();
  });

  test('after close, with calls and a watch that were pending at a frozen member', async () => {
    await using worker = await startWaiting('pending', server);
    const connected = worker.pauseAt('connected');
    await connected.reached();
    await server.pause();
    await connected.resume();
    expect(await worker.next('ends')).toMatchObject({ codes: ['closed', 'closed', 'closed'] });
    expect(await endOf(worker)).toBeLessThan(1_000);
    server.resume();
  });

  test('after close, where nothing answered', async () => {
    const hosts = [await closedPort(), await closedPort()].join(',');
    await using worker = await startWorker(WORKER, { args: ['down', hosts] });
    expect(await endOf(worker)).toBeLessThan(1_000);
  });

  test('without close, once nothing is pending or watched', async () => {
    await using worker = await startWorker(WORKER, { args: ['not closed', server.endpoint] });
    expect(await endOf(worker)).toBeLessThan(1_000);
  });
});
