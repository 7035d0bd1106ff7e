import { describe, expect, it } from 'vitest';
import { serverThat } from './fixtures/server-that.ts';
import { probeRedis, readRedisUrl } from './redis-server-probe.ts';

const probe = (port: number) =>
  probeRedis('REDIS_URL', readRedisUrl('REDIS_URL', `redis://:s%40fe@127.0.0.1:${port}/1`));

const INFO = '# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n';
const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`;

describe('probing an address for a Redis', () => {
  it('learns the version, however the bytes arrive', async () => {
    const words = `+OK\r\n${bulk(INFO)}+PONG\r\n`;
    expect(await probe(await serverThat(words))).toBe('7.0.15');
    expect(await probe(await serverThat(...words))).toBe('7.0.15');
  });

  it.each([
    ['wants another password', ['-WRONGPASS invalid\r\n-NOAUTH required\r\n', '-NOAUTH required\r\n']],
    ['allows no INFO', ['+OK\r\n-NOPERM this user\r\n', '+PONG\r\n']],
  ])('finds one that %s', async (_, words) => {
    expect(await probe(await serverThat(...words))).toBeUndefined();
  });

  it.each([
    ['is still reading its data', ['-LOADING Redis is loading\r\n'], /LOADING Redis is loading/],
    ['speaks HTTP', ['HTTP/1.1 400 Bad Request\r\n\r\n'], /another protocol/],
    ['hangs up', [undefined], /closed the connection/],
  ])('finds none where what listens %s', async (_, words, why) => {
    const port = await serverThat(...words);
    const error = await probe(port).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'no-server', message: expect.stringMatching(why) });
    const where = `REDIS_URL names 127.0.0.1:${port}, but no Redis takes connections there`;
    expect(error).toMatchObject({ message: expect.stringContaining(where) });
  });
});

describe('reading an address', () => {
  it.each([
    ['redis://', { host: '127.0.0.1', port: 6379, user: '', password: '' }],
    ['redis://me:s%40fe@[::1]:7000/3', { host: '::1', port: 7000, user: 'me', password: 's@fe' }],
  ])('of %s', (text, parts) => {
    expect(readRedisUrl('REDIS_URL', text)).toEqual(parts);
  });

  it('refuses one of another kind of server', () => {
    expect(() => readRedisUrl('REDIS_URL', 'mysql://h/x')).toThrow(
      'REDIS_URL has the scheme "mysql:"; expected redis://user:password@host:port/database',
    );
  });
});
