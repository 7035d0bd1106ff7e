import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect,
  createServer,
  type Http2Server,
  type ServerHttp2Session,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { etcdCoordinator } from '@lockkeeper/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startEtcd } from './etcd-server.ts';
import { GrpcMessages } from './grpc-messages.ts';
import { type GrpcProxy, startGrpcProxy } from './grpc-proxy.ts';
import { waitUntil } from './wait-until.ts';

function message(text: string): Buffer {
  const bytes = Buffer.alloc(5 + Buffer.byteLength(text));
  bytes.writeUInt32BE(Buffer.byteLength(text), 1);
  bytes.write(text, 5);
  return bytes;
}

const textsOf = (messages: readonly Buffer[]) => messages.map((bytes) => bytes.subarray(5).toString());

it('cuts a stream into messages, however its bytes arrive', () => {
  const bytes = Buffer.concat([message('one'), message(''), message('three')]);
  for (const size of [1, 3, 7, 100]) {
    const messages = new GrpcMessages();
    const found: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size)
      found.push(...messages.push(bytes.subarray(at, at + size)));
    expect(textsOf(found)).toEqual(['one', '', 'three']);
  }
});

describe('the gRPC proxy', () => {
  let server: Http2Server;
  let proxy: GrpcProxy;
  let session: ClientHttp2Session;
  let resets: number[];
  const sessions = new Set<ServerHttp2Session>();

  beforeEach(async () => {
    resets = [];
    server = createServer();
    server.on('stream', (stream, headers) => {
      if (headers[':path'] === '/refused') {
        stream.respond({ ':status': 200, 'grpc-status': '16' }, { endStream: true });
        return;
      }
      const messages = new GrpcMessages();
      stream.on('error', () => {});
      stream.once('close', () => resets.push(stream.rstCode ?? 0));
      stream.respond({ ':status': 200 }, { waitForTrailers: true });
      stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.on('data', (chunk: Buffer) => {
        for (const one of messages.push(chunk)) {
          if (one.subarray(5).toString() === 'reset') stream.close(11);
          else stream.write(one);
        }
      });
      stream.once('end', () => stream.end());
    });
    server.on('session', (one) => sessions.add(one));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    proxy = await startGrpcProxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    session = connect(proxy.url);
    session.on('error', () => {});
  });
  afterEach(async () => {
    session.destroy();
    await proxy.close();
    for (const one of sessions) one.destroy();
    sessions.clear();
    server.close();
  });

  function call(path: string) {
    const stream = session.request({ ':method': 'POST', ':path': path, 'x-own': 'kept' });
    const messages = new GrpcMessages();
    const received: string[] = [];
    const trailers: Record<string, unknown>[] = [];
    const codes: number[] = [];
    stream.on('data', (chunk: Buffer) => received.push(...textsOf(messages.push(chunk))));
    stream.on('response', (headers) => 'grpc-status' in headers && trailers.push(headers));
    stream.on('trailers', (headers) => trailers.push(headers));
    stream.on('error', () => {});
    stream.on('close', () => codes.push(stream.rstCode));
    return { stream, received, trailers, codes, say: (text: string) => stream.write(message(text)) };
  }

  it('passes messages, trailers, refusals and resets on, of many calls on one connection', async () => {
    const [one, other, refused] = [call('/a'), call('/b'), call('/refused')];
    one.say('1');
    other.say('x'.repeat(1_000_000));
    one.say('2');
    await waitUntil('all came', () => one.received.length === 2 && other.received.length === 1);
    expect(one.received).toEqual(['1', '2']);
    expect(other.received[0]).toHaveLength(1_000_000);
    one.stream.end();
    refused.stream.end();
    await waitUntil('closed', () => one.codes.length + refused.codes.length === 2);
    expect(one.trailers).toMatchObject([{ 'grpc-status': '0' }]);
    expect(refused.trailers).toMatchObject([{ 'grpc-status': '16' }]);
    expect([one.codes, refused.codes]).toEqual([[0], [0]]);

    other.say('reset');
    await waitUntil('reset', () => other.codes.length === 1);
    expect(other.codes).toEqual([11]);
    const given = call('/c');
    given.say('1');
    await waitUntil('answered', () => given.received.length === 1);
    given.stream.close(8);
    await waitUntil('the server knows', () => resets.includes(8));
    expect(proxy.accepted).toBe(1);
  });

  it.each(['request', 'reply'] as const)(
    'loses every %s of one method, beyond any window of flow control, and goes on afterwards',
    async (direction) => {
      const [lossy, other] = [call('/lossy'), call('/other')];
      lossy.say('before');
      await waitUntil('answered', () => lossy.received.length === 1);
      const loss = proxy.drop({ method: '/lossy', direction });
      for (let index = 0; index < 300; index += 1) lossy.say(`${index} ${'x'.repeat(1_000)}`);
      other.say('in between');
      await waitUntil('the other goes on', () => other.received.length === 1);
      await waitUntil('all are lost', () => loss.dropped === 300);
      loss.restore();
      lossy.say('after');
      await waitUntil('answered', () => lossy.received.length === 2);
      expect(lossy.received).toEqual(['before', 'after']);
      lossy.stream.end();
      await waitUntil('closed', () => lossy.codes.length === 1);
      expect(lossy.trailers).toMatchObject([{ 'grpc-status': '0' }]);
      expect(proxy.accepted).toBe(1);
    },
  );

  it('keeps the end of a call back while its messages are lost', async () => {
    const lossy = call('/lossy');
    const loss = proxy.drop({ method: '/lossy' });
    lossy.say('lost');
    lossy.stream.end();
    await waitUntil('lost', () => loss.dropped === 1);
    expect(lossy.trailers).toEqual([]);
    loss.restore();
    await waitUntil('closed', () => lossy.codes.length === 1);
    expect(lossy.received).toEqual([]);
    expect(lossy.trailers).toMatchObject([{ 'grpc-status': '0' }]);
  });

  it('names a target and a fault that could never be', async () => {
    for (const target of ['nonsense', 'https://127.0.0.1:1', undefined as never]) {
      await expect(startGrpcProxy(target)).rejects.toMatchObject({
        code: 'invalid-option',
        message: expect.stringContaining(`target is "${target}"; expected http://`),
      });
    }
    expect(() => proxy.drop({ method: 'Lease' })).toThrow(/method is "Lease"; expected the path/);
    expect(() => proxy.drop({ method: '/lossy', direction: 'both' as never })).toThrow(/direction is "both"/);
  });

  it("ends a client's connection with the server's, and closes while messages are being lost", async () => {
    const { stream } = call('/lossy');
    proxy.drop({ method: '/lossy' });
    stream.end(message('x'));
    await waitUntil('joined', () => sessions.size > 0);
    for (const one of sessions) one.destroy();
    await once(session, 'close');
    await proxy.close();
    await expect(startGrpcProxy('https://127.0.0.1:1')).rejects.toMatchObject({ code: 'invalid-option' });
  });
});

it('loses the renewals of etcdctl, and nothing else, on a connection that goes on', {
  timeout: 60_000,
}, async () => {
  await using etcd = await startEtcd({ own: true });
  await using proxy = await startGrpcProxy(etcd.endpoint);
  await using coordinator = etcdCoordinator({ hosts: proxy.url });
  await coordinator.grant({ lease: 0x77n, ttlMs: 6_000 });
  const args = ['--endpoints', proxy.url, 'lease', 'keep-alive', '77'];
  const through = spawn(etcd.ctlPath ?? '', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const said: string[] = [];
  through.stdout.on('data', (text) => said.push(...`${text}`.trim().split('\n')));
  await waitUntil('renewed once', () => said.length === 1);
  const accepted = proxy.accepted;
  {
    using loss = proxy.dropKeepAlives();
    // It asks after a third of the TTL, and then again and again, because nobody answers.
    await waitUntil('three are lost', () => loss.dropped >= 3);
    expect(await coordinator.timeToLive(0x77n)).toMatchObject({ grantedTtlMs: 6_000 });
    expect(said).toHaveLength(1);
  }
  await waitUntil('renewed again', () => said.length > 1);
  expect(said.at(-1)).toContain('TTL(6)');
  expect(proxy.accepted).toBe(accepted);
  through.kill('SIGKILL');
  await once(through, 'exit');
});
