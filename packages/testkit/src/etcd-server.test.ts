import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { availableEtcdVersions, type EtcdServer, startEtcd } from './etcd-server.ts';
import { processState } from './process-table.ts';

const versions = await availableEtcdVersions();

describe.each(versions)('etcd %s', { timeout: 60_000 }, (version) => {
  let etcd: EtcdServer | undefined;
  afterEach(() => etcd?.stop());

  it('starts, is frozen and thawed, killed, restarted with and without its data, and stopped', async () => {
    etcd = await startEtcd({ version, own: true });
    const { endpoint, pid } = etcd;
    expect(etcd.version).toBe(version);
    expect(await etcd.ctl(['endpoint', 'status'])).toContain(version);
    await etcd.ctl(['put', 'kept'], { input: 'yes' });

    await etcd.pause();
    await expect(etcd.ctl(['get', 'kept'], { timeoutMs: 300 })).rejects.toMatchObject({
      code: 'command-failed',
    });
    etcd.resume();
    expect(await etcd.ctl(['get', 'kept', '--print-value-only'])).toBe('yes\n');

    await etcd.kill();
    expect(etcd.pid).toBeUndefined();
    await expect(etcd.pause()).rejects.toMatchObject({ code: 'not-running' });
    await expect(etcd.restart({ forMs: Number.NaN })).rejects.toThrow(/forMs is NaN; expected milliseconds/);
    await etcd.restart();
    expect(etcd.endpoint).toBe(endpoint);
    expect(etcd.pid).not.toBe(pid);
    expect(await etcd.ctl(['get', 'kept', '--print-value-only'])).toBe('yes\n');

    await etcd.restart({ wipe: true });
    expect(await etcd.ctl(['get', 'kept'])).toBe('');

    const last = etcd.pid as number;
    await Promise.all([etcd.stop(), etcd.stop()]);
    expect(processState(last)).toBe('gone');
    await expect(etcd.restart()).rejects.toMatchObject({ code: 'not-running' });
  });

  it('takes a lock through a spawned etcdctl', async () => {
    etcd = await startEtcd({ version, own: true });
    const holder = etcd.spawnCtl(['lock', 'mutex']);
    const [output] = await once(holder.stdout, 'data');
    expect(`${output}`).toMatch(/^mutex\/[0-9a-f]+/);
    expect(await etcd.ctl(['get', '--prefix', 'mutex/', '--keys-only'])).toContain(`${output}`.trim());
    holder.kill('SIGINT');
    await once(holder, 'exit');
  });
});

describe('finding an etcd', { timeout: 30_000 }, () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it('uses the address in the environment, which it cannot stop', async () => {
    await using started = await startEtcd({ own: true });
    vi.stubEnv('ETCD_ENDPOINTS', `${started.endpoint},http://127.0.0.1:1`);
    expect(await availableEtcdVersions()).toEqual([started.version]);
    const found = await startEtcd();
    expect(found).toMatchObject({ route: 'env', endpoint: started.endpoint, version: started.version });
    await found.ctl(['put', 'a', 'b']);
    await expect(found.pause()).rejects.toMatchObject({ code: 'not-ours' });
    await expect(found.restart()).rejects.toThrow(/was found by its address: it cannot be restarted here/);
    await found.stop();
    expect(await started.ctl(['get', 'a', '--print-value-only'])).toBe('b\n');
  });

  it('says what to do where there is none', async () => {
    vi.stubEnv('LOCKKEEPER_SERVERS', 'unpacked');
    vi.stubEnv('LOCKKEEPER_SERVER_CACHE', '/nonexistent');
    expect(await availableEtcdVersions()).toEqual([]);
    await expect(startEtcd()).rejects.toThrow(
      /LOCKKEEPER_SERVERS=unpacked.*ETCD_ENDPOINTS.*3\.4\.23.*apt install/,
    );
    vi.stubEnv('LOCKKEEPER_SERVERS', 'env');
    await expect(startEtcd()).rejects.toThrow('LOCKKEEPER_SERVERS is "env", but ETCD_ENDPOINTS is not set');
    vi.stubEnv('LOCKKEEPER_SERVERS', 'magic');
    await expect(startEtcd()).rejects.toMatchObject({ code: 'invalid-option' });
  });

  it('names the versions in reach when asked for another', async () => {
    await expect(startEtcd({ version: '1.2.3' })).rejects.toThrow(
      `no etcd 1.2.3 in reach; found: ${versions.at(-1)}`,
    );
  });

  it('reports a program that ends at once with its own words, and leaves no folder', async () => {
    const error = await startEtcd({ extraArgs: ['--no-such-flag'] }).catch((reason: Error) => reason);
    expect(error).toMatchObject({ code: 'start-failed', message: expect.stringContaining('no-such-flag') });
    const folder = /lockkeeper-etcd-\w+/.exec(`${(error as Error).message}`)?.[0];
    if (folder !== undefined) expect(existsSync(`/tmp/${folder}`)).toBe(false);
  });
});
