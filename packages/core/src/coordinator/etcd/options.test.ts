import { describe, expect, test } from 'vitest';
import type { LockkeeperError } from '../../errors.ts';
import { type EtcdOptions, resolveEtcdOptions } from './options.ts';

function authorities(options: EtcdOptions): string[] {
  return resolveEtcdOptions(options).addresses.map(({ scheme, authority }) => `${scheme}://${authority}`);
}

function refusal(options: unknown): LockkeeperError {
  try {
    resolveEtcdOptions(options as EtcdOptions);
  } catch (error) {
    return error as LockkeeperError;
  }
  throw new Error('not refused');
}

describe('hosts', () => {
  test.each([
    ['localhost', ['http://localhost:2379']],
    ['localhost:80', ['http://localhost:80']],
    ['http://localhost:80', ['http://localhost:80']],
    ['https://etcd.example.org', ['https://etcd.example.org:2379']],
    ['HTTP://10.0.0.1:2379/', ['http://10.0.0.1:2379']],
    ['[::1]', ['http://[::1]:2379']],
    ['http://[fe80::1%eth0]:1', ['http://[fe80::1%eth0]:1']],
    ['a:1, b:2 ,http://c', ['http://a:1', 'http://b:2', 'http://c:2379']],
    [
      ['a:1', 'http://a:1', 'b'],
      ['http://a:1', 'http://b:2379'],
    ],
  ])('%j are %j', (hosts, expected) => {
    expect(authorities({ hosts })).toEqual(expected);
  });

  test.each([
    [undefined, 'undefined'],
    ['', '""'],
    [[], ''],
    ['a,,b', '""'],
    ['a:0', '"a:0"'],
    ['a:65536', '"a:65536"'],
    ['::1', '"::1"'],
    ['ftp://a', '"ftp://a"'],
    ['http://user:pw@a', '"http://user:pw@a"'],
    ['http://a/path', '"http://a/path"'],
    [['a', 7], '7'],
  ])('%j are refused with their name and value', (hosts, shown) => {
    const error = refusal({ hosts });
    expect(error).toMatchObject({ code: 'invalid-option', outcome: 'rejected' });
    expect(error.message).toContain(`hosts is ${shown}`);
  });

  test('of two schemes are refused', () => {
    expect(refusal({ hosts: 'http://a,https://b' }).message).toContain('hosts is "http://a,https://b"');
  });
});

describe('credentials', () => {
  test('make https the default scheme', () => {
    expect(authorities({ hosts: 'a', credentials: {} })).toEqual(['https://a:2379']);
  });

  test.each([
    [{ hosts: 'http://a', credentials: {} }, 'credentials is'],
    [{ hosts: 'a', credentials: { certChain: 'PEM' } }, 'credentials.privateKey is undefined'],
    [{ hosts: 'a', credentials: { privateKey: 'PEM' } }, 'credentials.certChain is undefined'],
    [{ hosts: 'a', credentials: { rootCertificate: 7 } }, 'credentials.rootCertificate is "number"'],
    [{ hosts: 'a', credentials: 'PEM' }, 'credentials is "PEM"'],
    [{ hosts: 'a', credentials: { rootCertificateFile: '' } }, 'credentials.rootCertificateFile is ""'],
    [
      { hosts: 'a', credentials: { rootCertificateFile: '/nowhere/ca.pem' } },
      'credentials.rootCertificateFile "/nowhere/ca.pem" cannot be read: ENOENT',
    ],
    [
      { hosts: 'a', credentials: { rootCertificate: 'PEM', rootCertificateFile: '/ca.pem' } },
      'credentials.rootCertificateFile is "/ca.pem"; expected rootCertificate or its file, not both',
    ],
    [{ hosts: 'a', credentials: { certChainFile: '/c.pem' } }, 'credentials.privateKey is undefined'],
    [{ hosts: 'a', credentials: { rootCertificate: 'half -----BEGIN CERTIFICATE-----\nAA' } }, 'PEM block'],
    [
      { hosts: 'a', credentials: { certChain: 'no PEM', privateKey: 'secret' } },
      'credentials.certChain is not usable: it holds no PEM certificate',
    ],
  ])('%j are refused', (options, message) => {
    const error = refusal(options);
    expect(error).toMatchObject({ code: 'invalid-option' });
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('secret');
  });
});

test.each([
  [{ auth: { username: '', password: 'x' } }, 'auth.username is ""'],
  [{ auth: { username: 'u', password: 7 } }, 'auth.password is "number"'],
  [{ auth: 'u:p' }, 'auth is "u:p"'],
  [{ callTimeoutMs: 0 }, 'callTimeoutMs is 0'],
  [{ callTimeoutMs: Number.NaN }, 'callTimeoutMs is NaN'],
  [{ keepaliveMs: 5_000 }, 'keepaliveMs is 5000'],
  [{ keepaliveMs: 2 ** 31 }, 'keepaliveMs is 2147483648'],
])('%j is refused', (options, message) => {
  const error = refusal({ hosts: 'a', ...options });
  expect(error).toMatchObject({ code: 'invalid-option' });
  expect(error.message).toContain(message);
});
