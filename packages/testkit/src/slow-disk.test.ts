import { connect } from '@lockkeeper/core';
import pg from 'pg';
import { describe, expect, it, vi } from 'vitest';
import { startEtcd } from './etcd-server.ts';
import { canSlowDisk } from './find-tools.ts';
import { startPostgres } from './postgres-server.ts';
import { processState } from './process-table.ts';
import { slowDisk } from './slow-disk.ts';
import { startTcpProxy } from './tcp-proxy.ts';

async function tookMs(call: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await call();
  return performance.now() - begun;
}

describe.skipIf(!canSlowDisk())('a slow disk', { timeout: 60_000 }, () => {
  it('delays what etcd must flush, and is quick again on the same connections', async () => {
    await using etcd = await startEtcd({ own: true });
    await using proxy = await startTcpProxy(etcd.endpoint);
    await using keeper = await connect({ hosts: proxy.url, ttlMs: 20_000 });
    await (await keeper.lock('x').acquire()).release();
    const { accepted } = proxy;
    const { pid } = etcd;

    const slow = await slowDisk(etcd, { delayMs: 2_000 });
    expect(await tookMs(() => keeper.lock('x').acquire())).toBeGreaterThanOrEqual(2_000);
    await Promise.all([slow.restore(), slow.restore()]);

    const hold = await keeper.lock('y').acquire();
    expect(await tookMs(() => hold.release())).toBeLessThan(2_000);
    expect(proxy.accepted).toBe(accepted);
    expect(etcd.pid).toBe(pid);
  });

  it('slows down a server of many processes, those that it starts later too', async () => {
    await using postgres = await startPostgres({ own: true });
    const open = async () => {
      const client = new pg.Client(postgres.url);
      await client.connect();
      return client;
    };
    const early = await open();
    await early.query('create table t (n int)');
    const insert = (client: pg.Client) => tookMs(() => client.query('insert into t values (1)'));
    {
      await using _ = await slowDisk(postgres, { delayMs: 1_500 });
      const late = await open();
      expect(await insert(early)).toBeGreaterThanOrEqual(1_500);
      expect(await insert(late)).toBeGreaterThanOrEqual(1_500);
      await late.end();
    }
    expect(await insert(early)).toBeLessThan(1_500);
    await early.end();
  });

  it('ends with its server', async () => {
    const etcd = await startEtcd({ own: true });
    const slow = await slowDisk(etcd, { delayMs: 60_000 });
    const { pid = 0 } = etcd;
    await etcd.stop();
    expect(processState(pid)).toBe('gone');
    await slow.restore();
    await expect(slowDisk(etcd, { delayMs: 1 })).rejects.toMatchObject({ code: 'not-running' });
  });

  it('says what it cannot trace', async () => {
    await using etcd = await startEtcd({ own: true });
    await using _ = await slowDisk(etcd, { delayMs: 1 });
    await expect(slowDisk(etcd, { delayMs: 1 })).rejects.toMatchObject({
      code: 'not-permitted',
      message: expect.stringContaining('ptrace'),
    });
    await expect(slowDisk(etcd, { delayMs: 0 })).rejects.toThrow('delayMs is 0');
  });
});

it('says what to install where there is no strace', async () => {
  vi.stubEnv('PATH', '/nonexistent');
  vi.stubEnv('LOCKKEEPER_SERVER_CACHE', '/nonexistent');
  expect(canSlowDisk()).toBe(false);
  await expect(slowDisk({ pid: process.pid }, { delayMs: 1 })).rejects.toMatchObject({ code: 'no-server' });
  vi.unstubAllEnvs();
});
