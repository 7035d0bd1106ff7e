import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, etcdCoordinator, type LockkeeperError } from '@lockkeeper/core';
import {
  CertificateAuthority,
  CertificateFolder,
  type EtcdServer,
  type KeyPair,
  startEtcd,
  startTcpProxy,
  waitUntil,
} from '@lockkeeper/testkit';
import { describe, expect, test } from 'vitest';
import { queueOf, timed } from '../faults/support.ts';
import { failure, put } from './support.ts';

const HOUR = 3_600_000;

/** Writes what a server with TLS needs, and starts one. */
async function startSecured(
  folder: CertificateFolder,
  authority: CertificateAuthority,
  clientsNeedCertificates: boolean,
): Promise<EtcdServer & { tlsEndpoint: string }> {
  const pair = await authority.issue('server', HOUR);
  await putServer(folder, authority, pair);
  const files = { certFile: folder.file('server.pem'), keyFile: folder.file('server.key') };
  const server = await startEtcd({
    version: 'newest',
    tls: { ...files, clientCaFile: clientsNeedCertificates ? folder.file('server-trusts.pem') : undefined },
  });
  return server as EtcdServer & { tlsEndpoint: string };
}

async function putServer(folder: CertificateFolder, authority: CertificateAuthority, pair: KeyPair) {
  await folder.put('server-trusts.pem', authority.certificate);
  await folder.put('server.key', pair.key);
  await folder.put('server.pem', pair.certificate);
}

async function putClient(folder: CertificateFolder, authority: CertificateAuthority, pair: KeyPair) {
  await folder.put('root.pem', authority.certificate);
  await folder.put('client.key', pair.key);
  await folder.put('client.pem', pair.certificate);
}

function clientFiles(folder: CertificateFolder) {
  return {
    rootCertificateFile: folder.file('root.pem'),
    certChainFile: folder.file('client.pem'),
    privateKeyFile: folder.file('client.key'),
  };
}

/** What the channel tells while this is open. */
class Unusable implements Disposable {
  readonly errors: LockkeeperError[] = [];
  readonly #listen = (event: unknown) => {
    this.errors.push((event as { error: LockkeeperError }).error);
  };

  constructor() {
    subscribe('lockkeeper:credentials:unusable', this.#listen);
  }

  [Symbol.dispose](): void {
    unsubscribe('lockkeeper:credentials:unusable', this.#listen);
  }
}

describe('TLS', () => {
  test('a server whose authority is trusted serves locks; another is refused, by name', async () => {
    await using folder = new CertificateFolder();
    const authority = await CertificateAuthority.create(folder.path, 'ours');
    await using server = await startSecured(folder, authority, false);
    const hosts = server.tlsEndpoint;
    await using keeper = await connect({ hosts, credentials: { rootCertificate: authority.certificate } });
    const hold = await keeper.lock('x').acquire();
    expect(await hold.release()).toMatchObject({ outcome: 'released' });
    expect((await keeper.health()).endpoints).toEqual([{ name: hosts, connected: true, current: true }]);

    const other = await CertificateAuthority.create(folder.path, 'other');
    const strangers = [{ rootCertificate: other.certificate }, {}];
    for (const credentials of strangers) {
      await using coordinator = etcdCoordinator({ hosts, credentials });
      const { error, tookMs } = await failure(coordinator.txn(put('x')));
      expect(error).toMatchObject({ code: 'unreachable', outcome: 'rejected' });
      expect(error.message).toContain(hosts);
      expect(error.message).toMatch(/certificate/);
      expect(tookMs).toBeLessThan(2_000);
    }
  });

  test('a server that asks for certificates takes ours, and nobody without one', async () => {
    await using folder = new CertificateFolder();
    const authority = await CertificateAuthority.create(folder.path, 'ours');
    await using server = await startSecured(folder, authority, true);
    await putClient(folder, authority, await authority.issue('client', HOUR));
    const hosts = server.tlsEndpoint;
    await using keeper = await connect({ hosts, credentials: clientFiles(folder) });
    expect(await (await keeper.lock('x').acquire()).release()).toMatchObject({ outcome: 'released' });

    const expired = await authority.issue('client', -1_000);
    const rootCertificate = authority.certificate;
    const strangers = [
      [/certificate required/, { rootCertificate }],
      [/certificate expired/, { rootCertificate, certChain: expired.certificate, privateKey: expired.key }],
    ] as const;
    for (const [why, credentials] of strangers) {
      await using coordinator = etcdCoordinator({ hosts, credentials });
      const { error, tookMs } = await failure(coordinator.txn(put('x')));
      expect(error).toMatchObject({ code: 'unreachable', outcome: 'rejected' });
      expect(error.message).toContain(hosts);
      expect(error.message).toMatch(why);
      expect(tookMs).toBeLessThan(5_000);
    }
  });

  test('what cannot be used is refused at the start, with the name of the field and the file', async () => {
    await using folder = new CertificateFolder();
    const authority = await CertificateAuthority.create(folder.path, 'ours');
    const [pair, other] = [await authority.issue('client', HOUR), await authority.issue('other', HOUR)];
    await putClient(folder, authority, pair);
    const good = clientFiles(folder);
    const file = (text: string) => folder.put('bad.pem', text);
    const half = (text: string) => text.slice(0, text.length / 2);
    const cases: readonly [keyof typeof good, string, RegExp][] = [
      ['rootCertificateFile', '', /it holds no PEM certificate/],
      ['rootCertificateFile', half(authority.certificate), /ends within a PEM block/],
      ['rootCertificateFile', authority.certificate + half(authority.certificate), /ends within a PEM block/],
      ['certChainFile', half(pair.certificate), /ends within a PEM block/],
      ['privateKeyFile', half(pair.key), /not usable/],
      ['privateKeyFile', other.key, /does not belong to credentials\.certChainFile/],
    ];
    for (const [field, text, why] of cases) {
      const path = await file(text);
      const make = () => etcdCoordinator({ hosts: 'a', credentials: { ...good, [field]: path } });
      expect(make).toThrow(`credentials.${field} ${JSON.stringify(path)}`);
      expect(make).toThrow(why);
    }
  });

  test('a connection that is lost comes back at the first try with the certificates of now', async () => {
    await using folder = new CertificateFolder();
    const authority = await CertificateAuthority.create(folder.path, 'ours');
    await using server = await startSecured(folder, authority, true);
    await using proxy = await startTcpProxy(server.tlsEndpoint);
    await putClient(folder, authority, await authority.issue('client', HOUR));
    const hosts = `https://127.0.0.1:${proxy.port}`;
    await using coordinator = etcdCoordinator({ hosts, credentials: clientFiles(folder) });
    await coordinator.txn(put('x'));

    const next = await CertificateAuthority.create(folder.path, 'next');
    const pair = await next.issue('server', HOUR);
    await putServer(folder, next, pair);
    await folder.put('root.pem', next.certificate);
    await coordinator.txn(put('x'));
    expect(proxy.accepted).toBe(1);
    proxy.cut();
    await waitUntil('noticed', () => coordinator.endpoints()[0]?.connected === false);
    await coordinator.txn(put('x'));
    expect(proxy.accepted).toBe(2);
  });

  test('files that are unusable while they are rotated cost nothing, and are reported', async () => {
    await using folder = new CertificateFolder();
    const authority = await CertificateAuthority.create(folder.path, 'ours');
    await using server = await startSecured(folder, authority, true);
    await using proxy = await startTcpProxy(server.tlsEndpoint);
    const [first, second] = [await authority.issue('first', HOUR), await authority.issue('second', HOUR)];
    await putClient(folder, authority, first);
    const hosts = `https://127.0.0.1:${proxy.port}`;
    using unusable = new Unusable();
    await using coordinator = etcdCoordinator({ hosts, credentials: clientFiles(folder) });
    await coordinator.range({ key: 'x' });

    // The connection that stands does not look at the files.
    await writeFile(folder.file('client.key'), second.key.slice(0, 50));
    await coordinator.txn(put('x'));
    expect([proxy.accepted, unusable.errors]).toEqual([1, []]);

    // A new one is made with what was read before.
    const states = [
      async () => {},
      async () => folder.put('client.key', second.key),
      async () => folder.put('root.pem', authority.certificate.slice(0, 300)),
      async () => folder.put('client.pem', ''),
    ];
    for (const [index, state] of states.entries()) {
      await state();
      proxy.cut({ rst: true });
      await waitUntil('noticed', () => coordinator.endpoints()[0]?.connected === false);
      await coordinator.range({ key: 'x' });
      expect(proxy.accepted).toBe(index + 2);
      expect(unusable.errors).toHaveLength(index + 1);
    }
    expect(unusable.errors.map(({ message }) => /credentials\.(\w+)/.exec(message)?.[1])).toEqual([
      'privateKeyFile',
      'privateKeyFile',
      'rootCertificateFile',
      'rootCertificateFile',
    ]);

    // When nothing helps, the error names the file too.
    using _ = proxy.refuse();
    proxy.cut({ rst: true });
    await waitUntil('noticed', () => coordinator.endpoints()[0]?.connected === false);
    const { error } = await failure(coordinator.range({ key: 'x' }));
    expect(error.message).toContain(`credentials.rootCertificateFile "${folder.file('root.pem')}"`);
  });
});

test('certificates and authority rotated three times, valid for 15 s each: a hold of TTL 10 s is never lost', async () => {
  await using folder = new CertificateFolder();
  const VALID_MS = 15_000;
  const old = await CertificateAuthority.create(folder.path, 'generation-0');
  await using server = await startSecured(folder, old, true);
  const oldPair = await old.issue('client', VALID_MS);
  await putClient(folder, old, oldPair);
  const credentials = clientFiles(folder);
  const namespace = 'rotation';
  await using keeper = await connect({ hosts: server.tlsEndpoint, credentials, namespace, ttlMs: 10_000 });
  await using stuck = etcdCoordinator({
    hosts: server.tlsEndpoint,
    credentials: {
      rootCertificate: old.certificate,
      certChain: oldPair.certificate,
      privateKey: oldPair.key,
    },
  });
  await stuck.range({ key: 'x' });
  const hold = await keeper.lock('x').acquire();
  const [lease] = await queueOf(keeper.coordinator, namespace, 'x');

  for (let generation = 1; generation <= 3; generation++) {
    const authority = await CertificateAuthority.create(folder.path, `generation-${generation}`);
    const pairs = await Promise.all(['server', 'client'].map((name) => authority.issue(name, VALID_MS)));
    const [serverPair, clientPair] = pairs as [KeyPair, KeyPair];
    await putServer(folder, authority, serverPair);
    // etcd reads its certificate for every connection, but whom it trusts only when it starts.
    await folder.put('client.key', clientPair.key);
    await server.restart();
    await sleep(500);
    await putClient(folder, authority, clientPair);
    await waitUntil('connected again', async () => {
      return (await timed(() => keeper.coordinator.range({ key: 'x' }))).error === undefined;
    });
    expect(hold.signal.reason).toBeUndefined();
    await sleep(4_000);
    expect(hold.standing).toBe('held');
  }

  expect((await failure(stuck.range({ key: 'x' }))).error).toMatchObject({ code: 'unreachable' });
  const [still] = await queueOf(keeper.coordinator, namespace, 'x');
  expect(still).toEqual(lease);
  expect(await hold.release()).toMatchObject({ outcome: 'released' });
});
