import { describe, expect, it } from 'vitest';
import { serverWith } from './fixtures/server-that.ts';
import { probeMariadb, readMariadbUrl } from './mariadb-server-probe.ts';

const probe = (port: number) =>
  probeMariadb('MYSQL_URL', readMariadbUrl('MYSQL_URL', `mysql://me@127.0.0.1:${port}/data`));

function packet(...parts: (string | number)[]): Buffer {
  const body = Buffer.concat(
    parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.of(part))),
  );
  return Buffer.concat([Buffer.of(body.length, 0, 0, 0), body]);
}

describe('probing an address for a MariaDB', () => {
  it.each([
    ['5.5.5-10.11.14-MariaDB-0+deb12u2', '10.11.14'],
    ['11.8.3-MariaDB', '11.8.3'],
    ['8.0.36', '8.0.36'],
  ])('learns the version of one that says %s, however the bytes arrive', async (said, version) => {
    const words = packet(10, said, 0, 'and more');
    expect(await probe(await serverWith({ first: true }, words))).toBe(version);
    const bytes = Array.from(words, (byte) => Buffer.of(byte));
    expect(await probe(await serverWith({ first: true }, ...bytes))).toBe(version);
  });

  it.each([
    ['refuses us', [packet(255, 16, 4, 'Too many connections')], /Too many connections/],
    ['speaks SSH', ['SSH-2.0-OpenSSH_9.2\r\n'], /another protocol/],
    ['hangs up', [undefined], /closed the connection/],
  ])('finds none where what listens %s', async (_, words, why) => {
    const port = await serverWith({ first: true }, ...words);
    const error = await probe(port).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'no-server', message: expect.stringMatching(why) });
    const where = `MYSQL_URL names 127.0.0.1:${port}, but no MariaDB takes connections there`;
    expect(error).toMatchObject({ message: expect.stringContaining(where) });
  });
});

describe('reading an address', () => {
  it('of a user, a password and a database', () => {
    expect(readMariadbUrl('MYSQL_URL', 'mariadb://me:s%40fe@[::1]/data')).toEqual({
      ...{ host: '::1', port: 3306, user: 'me', password: 's@fe', database: 'data' },
    });
  });

  it.each([
    ['postgres://h/x', 'MYSQL_URL has the scheme "postgres:"; expected mysql://'],
    ['mysql://me@host', 'MYSQL_URL names no database; expected mysql://'],
  ])('refuses %s', (text, message) => {
    expect(() => readMariadbUrl('MYSQL_URL', text)).toThrow(message);
  });
});
