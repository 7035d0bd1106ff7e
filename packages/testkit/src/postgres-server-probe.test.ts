import { describe, expect, it } from 'vitest';
import { serverThat } from './fixtures/server-that.ts';
import { probePostgres, readPostgresUrl } from './postgres-server-probe.ts';

function message(type: string, body: string | Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + Buffer.byteLength(body), 1);
  return Buffer.concat([head, Buffer.from(body)]);
}
const number = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
const refusal = (state: string, text: string) => message('E', `SFATAL\0C${state}\0M${text}\0\0`);
const ADMITTED = message('R', number(0));

async function probe(port: number): Promise<string | undefined> {
  return probePostgres(
    'POSTGRES_URL',
    readPostgresUrl('POSTGRES_URL', `postgres://me@127.0.0.1:${port}/data`),
  );
}

describe('probing an address for a PostgreSQL', () => {
  it.each([
    ['asks for a password', [message('R', number(10))]],
    ['wants TLS', [refusal('28000', 'no pg_hba.conf entry, no encryption')]],
    ['is an older or newer one', [message('v', number(0)), message('R', number(5))]],
    ['tells no version', [ADMITTED, message('S', 'TimeZone\0UTC\0'), message('Z', 'I')]],
  ])('finds one that %s', async (_, words) => {
    expect(await probe(await serverThat(...words))).toBeUndefined();
  });

  it('learns the version where no password is asked for, however the bytes arrive', async () => {
    const words = Buffer.concat([
      ADMITTED,
      message('S', 'TimeZone\0UTC\0'),
      message('S', 'server_version\x0015.14 (Debian 15.14-0)\0'),
    ]);
    expect(await probe(await serverThat(words))).toBe('15.14');
    const bytes = Array.from(words, (byte) => Buffer.from([byte]));
    expect(await probe(await serverThat(...bytes))).toBe('15.14');
  });

  it.each([
    ['is starting up', [refusal('57P03', 'the database system is starting up')], /is starting up/],
    [
      'has no such database',
      [ADMITTED, refusal('3D000', 'database "data" does not exist')],
      /does not exist/,
    ],
    ['speaks HTTP', ['HTTP/1.1 400 Bad Request\r\n\r\n'], /another protocol/],
    ['speaks SSH', ['SSH-2.0-OpenSSH_9.2\r\n'], /another protocol/],
    ['hangs up', [undefined], /closed the connection/],
    ['hangs up half-way', [message('R', number(0)).subarray(0, 6), undefined], /closed the connection/],
    ['says nothing', [], /no answer within 3000 ms/],
  ])('finds none where what listens %s', async (_, words, why) => {
    const port = await serverThat(...words);
    const error = await probe(port).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'no-server', message: expect.stringMatching(why) });
    const where = `POSTGRES_URL names 127.0.0.1:${port}, but no PostgreSQL takes connections there`;
    expect(error).toMatchObject({ message: expect.stringContaining(where) });
  });

  it('finds none at a name where nothing listens', async () => {
    const address = readPostgresUrl('POSTGRES_URL', 'postgres://me@localhost:1/data');
    await expect(probePostgres('POSTGRES_URL', address)).rejects.toThrow(/localhost:1.*ECONNREFUSED/);
  });
});

describe('reading an address', () => {
  it.each([
    [
      'postgres://me:s%40fe@[::1]/',
      { host: '::1', port: 5432, user: 'me', password: 's@fe', database: 'me' },
    ],
    ['postgresql:///data?host=/run/postgresql', { host: '/run/postgresql', database: 'data', user: '' }],
    ['postgres://%2Frun%2Fpostgresql:5433/data', { host: '/run/postgresql', port: 5433 }],
    ['postgres:///data', { host: '127.0.0.1' }],
  ])('of %s', (text, parts) => {
    expect(readPostgresUrl('POSTGRES_URL', text)).toMatchObject(parts);
  });
});
