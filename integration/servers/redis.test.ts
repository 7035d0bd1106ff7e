import { type RedisServer, startRedis, TestkitError } from '@lockkeeper/testkit';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it, vi } from 'vitest';

const started: AsyncDisposable[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const each of started.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const redis: typeof startRedis = async (options) => {
  const server = await startRedis(options);
  started.push(server);
  return server;
};

/** A connection that reports what befalls it by its commands alone. */
function connect(server: RedisServer): Redis {
  const client = new Redis(server.url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
  client.on('error', () => undefined);
  started.push({ [Symbol.asyncDispose]: async () => client.disconnect() });
  return client;
}

describe('a Redis of our own', () => {
  it('freezes, loses nothing by a kill, comes back at its address, and empty after a wipe', async () => {
    const server = await redis({ own: true });
    const client = connect(server);
    expect(await client.config('GET', 'append*')).toEqual(
      expect.arrayContaining(['appendonly', 'yes', 'appendfsync', 'always']),
    );
    expect(await client.config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'noeviction']);
    await client.set('kept', '7');

    await server.pause();
    const outcome = client.ping();
    const silence = new Promise((resolve) => setTimeout(resolve, 200, 'silence'));
    expect(await Promise.race([outcome, silence])).toBe('silence');
    server.resume();
    expect(await outcome).toBe('PONG');

    const { pid, url } = server;
    await server.kill();
    await expect(client.get('kept')).rejects.toThrow();
    await server.restart();
    expect(server.pid).not.toBe(pid);
    expect(server.url).toBe(url);
    expect(await connect(server).get('kept')).toBe('7');
    await server.restart({ wipe: true });
    expect(await connect(server).dbsize()).toBe(0);
    await server.stop();
    await expect(connect(server).ping()).rejects.toThrow();
  });

  it('takes settings, a password and a master among them', async () => {
    const master = await redis({ settings: { requirepass: 's@fe', maxmemory: '3mb' } });
    const replica = await redis({
      settings: { replicaof: `127.0.0.1 ${master.port}`, masterauth: 's@fe', appendonly: 'no' },
    });
    const [writer, reader] = [connect(master), connect(replica)];
    expect(await writer.config('GET', 'maxmemory')).toEqual(['maxmemory', String(3 * 1024 * 1024)]);
    await expect.poll(() => reader.role(), { timeout: 30_000 }).toContain('connected');
    await writer.set('copied', '7');
    expect(await writer.wait(1, 10_000)).toBe(1);
    expect(await reader.get('copied')).toBe('7');
    await expect(reader.set('copied', '8')).rejects.toThrow(/READONLY/);
  });

  it.each([
    [{ port: '7' }, 'settings.port is "7"; the testkit sets it itself'],
    [{ save: '""\nport 7' }, 'settings.save is "\\"\\"\\nport 7"; expected a single line'],
  ])('refuses %j by name', async (settings, message) => {
    await expect(redis({ settings })).rejects.toMatchObject({ code: 'invalid-option', message });
  });

  it('says why it does not start', async () => {
    const failure = redis({ settings: { maxmemory: 'much' } });
    await expect(failure).rejects.toThrow(/Redis .* ended \(exit code 1\).*'?maxmemory much/s);
    await expect(failure).rejects.toBeInstanceOf(TestkitError);
  });
});

describe('finding a Redis', () => {
  it('uses the address in the environment, which it cannot stop', async () => {
    const server = await redis({ settings: { requirepass: 's@fe' } });
    vi.stubEnv('LOCKKEEPER_SERVERS', '');
    vi.stubEnv('REDIS_URL', server.url);
    const found = await redis();
    const { version, port } = server;
    expect(found).toMatchObject({ route: 'env', url: server.url, host: '127.0.0.1', port, version });
    await expect(found.kill()).rejects.toMatchObject({ code: 'not-ours' });
    vi.stubEnv('REDIS_URL', server.url.replace('s%40fe', 'wrong'));
    expect(await redis()).toMatchObject({ route: 'env', version: 'unknown' });
    await server.kill();
    await expect(redis()).rejects.toMatchObject({
      code: 'no-server',
      message: expect.stringMatching(`REDIS_URL names 127.0.0.1:${port}.*ECONNREFUSED`),
    });
  });

  it('says what to do where there is none', async () => {
    vi.stubEnv('LOCKKEEPER_SERVERS', 'unpacked');
    vi.stubEnv('LOCKKEEPER_SERVER_CACHE', '/nonexistent');
    await expect(redis()).rejects.toThrow(
      /no Redis in reach.*REDIS_URL.*Redis 6.0.*apt install redis-server/,
    );
  });
});
