// The three outcomes on an object store, D6 and D7: applied, certainly not applied, unknown. The SDK's own
// retries are on, as users have them, unless a test says otherwise.
import type { S3Client } from '@aws-sdk/client-s3';
import { FencingToken } from '@lockkeeper/fencing';
import {
  parseGuardedObject,
  type S3Guard,
  type S3GuardOptions,
  s3Guard,
} from '@lockkeeper/resource-guard/s3';
import { chunkContaining, startTcpProxy, type TcpProxy } from '@lockkeeper/testkit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newS3Client } from './s3/client.ts';
import { type StrictS3, startStrictS3 } from './s3/server.ts';

let server: StrictS3;
let proxy: TcpProxy;
/** With the SDK's retries, with a single try, and through the proxy. */
let clients: { readonly direct: S3Client; readonly once: S3Client; readonly proxied: S3Client };

beforeAll(async () => {
  server = await startStrictS3();
  proxy = await startTcpProxy(server.url);
  clients = {
    direct: newS3Client(server.url),
    once: newS3Client(server.url, { maxAttempts: 1 }),
    proxied: newS3Client(proxy.url),
  };
});
afterAll(async () => {
  for (const client of Object.values(clients ?? {})) client.destroy();
  await proxy?.close();
  await server?.stop();
});

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

let objects = 0;
let key: string;
let guard: S3Guard;
/** The same object from elsewhere. */
let other: S3Guard;

const open = (client: S3Client, options: Partial<S3GuardOptions> = {}) =>
  s3Guard(client, { bucket: server.bucket, key, ...options });
const append = (through: S3Guard, as: FencingToken, entry: string) =>
  through.run(as, (handle) => handle.put(`${handle.text() ?? ''}${entry}`));
const peek = () => Buffer.from(parseGuardedObject(server.peek(key) as Buffer).value ?? '').toString();
const puts = () => server.seen.filter((each) => each.method === 'PUT' && each.key === key);

beforeEach(async () => {
  objects += 1;
  key = `object-${objects}`;
  guard = open(clients.direct);
  other = open(clients.direct);
  await guard.create();
  await guard.claim(OLD);
  for (const client of Object.values(clients)) await open(client).probe();
});
afterEach(() => {
  server.heal();
  proxy.restore();
});

describe('the reply to a write that was applied is lost', () => {
  it.each(['direct', 'once'] as const)('and found out by reading back (client: %s)', async (name) => {
    guard = open(clients[name]);
    server.faults.lostReplies = 1;
    await append(guard, OLD, 'x');
    server.faults.lostReplies = 1;
    await guard.put(OLD, `${peek()}y`);
    expect(peek()).toBe('xy');
    server.faults.lostReplies = 1;
    await guard.claim(NEW);
    await expect(other.put(OLD, 'late')).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    server.faults.lostReplies = 1;
    await guard.seal(NEW);
    await expect(other.put(NEW, 'late')).rejects.toMatchObject({ code: 'sealed' });
    expect(server.faults.lostReplies).toBe(0);
    expect(peek()).toBe('xy');
  });

  it.each([
    ['direct', 'proxyErrors'],
    ['once', 'proxyErrors'],
    ['direct', 'errorsIn200'],
    ['once', 'errorsIn200'],
  ] as const)('or another error is told instead of it (client: %s, %s)', async (name, fault) => {
    guard = open(clients[name]);
    server.faults[fault] = 1;
    await append(guard, OLD, 'x');
    server.faults[fault] = 1;
    await guard.claim(NEW);
    expect([peek(), server.faults[fault]]).toEqual(['x', 0]);
  });

  it('the SDK sends it again, is refused by its own write, and that is no refusal of the token', async () => {
    server.faults.lostReplies = 1;
    const before = puts().length;
    await append(guard, OLD, 'x');
    expect(
      puts()
        .slice(before)
        .map(({ status }) => status),
    ).toEqual([0, 412]);
  });

  it('also where the object was made', async () => {
    server.objects.delete(`${server.bucket}/${key}`);
    server.faults.lostReplies = 1;
    expect(await guard.create()).toBe(true);
    expect(await guard.create()).toBe(false);
  });

  /** The write of `x` is applied and its reply lost; `meanwhile` comes before the object is read back. */
  async function overtaken(meanwhile: () => Promise<void>): Promise<void> {
    const through = open(clients.proxied);
    await through.put(OLD, '');
    const lost = proxy.loseReply({ match: chunkContaining('PUT /') });
    const readBack = proxy.hold({ direction: 'request', match: chunkContaining('GET /') });
    const write = through.put(OLD, 'x');
    write.catch(() => undefined);
    await lost.lost;
    lost.restore();
    await readBack.held;
    await meanwhile();
    await readBack.release();
    return write;
  }

  it('and the write is known by its id also after a new owner has claimed and written', async () => {
    await overtaken(async () => {
      await other.claim(NEW);
      expect(await other.run(NEW, (handle) => handle.text())).toBe('x');
      await other.put(NEW, 'z');
    });
    expect(peek()).toBe('z');
  });

  it('and a token that was overtaken at its first run writes nothing', async () => {
    const through = open(clients.proxied);
    const lost = proxy.loseReply({ match: chunkContaining('PUT /') });
    let effects = 0;
    const run = through.run(NEW, (handle) => {
      effects += 1;
      handle.put(`${handle.text()}late`);
    });
    run.catch(() => undefined);
    await lost.lost;
    const readBack = proxy.hold({ direction: 'request', match: chunkContaining('GET /') });
    lost.restore();
    await readBack.held;
    await other.claim(token(3n));
    await readBack.release();
    await expect(run).rejects.toMatchObject({ code: 'stale-token', token: NEW, current: token(3n) });
    expect(effects).toBe(0);
    expect(peek()).toBe('');
  });

  it('unknown after so many writes that nobody remembers, and not stale', async () => {
    const write = overtaken(async () => {
      await other.claim(NEW);
      for (let count = 0; count < 30; count++) await other.put(NEW, `${count}`);
    });
    await expect(write).rejects.toMatchObject({ code: 'unknown', outcome: 'unknown', token: OLD });
  });

  it('unknown where nothing can be read back, and the guard goes on afterwards', async () => {
    const through = open(clients.proxied, { requestTimeoutMs: 1_000, timeoutMs: 2_500 });
    await guard.put(OLD, '');
    const lost = proxy.loseReply({ match: chunkContaining('PUT /') });
    const write = through.put(OLD, 'x');
    write.catch(() => undefined);
    await lost.lost;
    const gone = proxy.blackhole();
    await expect(write).rejects.toMatchObject({ code: 'unknown', outcome: 'unknown' });
    expect(peek()).toBe('x');
    lost.restore();
    gone.restore();
    await append(open(clients.proxied), OLD, 'y');
    expect(peek()).toBe('xy');
  });
});

describe('a write that was not applied', () => {
  it('is sent again where the request was lost', async () => {
    guard = open(clients.once);
    await guard.put(OLD, 'x');
    server.faults.lostRequests = 2;
    await append(guard, OLD, 'y');
    expect(peek()).toBe('xy');
  });

  it('is applied once, although the first try still waits inside the store', async () => {
    guard = open(clients.once, { requestTimeoutMs: 1_000 });
    const held = server.holdPut();
    await append(guard, OLD, 'x');
    await append(guard, OLD, 'y');
    const before = puts().length;
    await held.letGo();
    await expect.poll(() => puts().length, { timeout: 10_000 }).toBe(before + 1);
    expect(puts().at(-1)?.status).toBe(412);
    expect(peek()).toBe('xy');
  });

  it('can never apply once a claim came first, wherever it waits', async () => {
    guard = open(clients.once, { requestTimeoutMs: 1_000 });
    await guard.put(OLD, '');
    const held = server.holdPut();
    const late = guard.put(OLD, 'late');
    await held.reached;
    await other.claim(NEW);
    await expect(late).rejects.toMatchObject({ code: 'stale-token', outcome: 'rejected', current: NEW });
    const before = puts().length;
    await held.letGo();
    await expect.poll(() => puts().length, { timeout: 10_000 }).toBe(before + 1);
    expect(peek()).toBe('');
  });

  it('is unavailable, or timeout, where the store cannot be asked at all', async () => {
    const through = open(clients.proxied, { requestTimeoutMs: 300, timeoutMs: 600 });
    let effects = 0;
    const run = () => through.run(OLD, () => void effects++);
    using _gone = proxy.blackhole();
    await expect(run()).rejects.toMatchObject({ code: 'timeout', outcome: 'failed' });
    proxy.restore();
    proxy.cut();
    using _closed = proxy.refuse();
    await expect(open(clients.proxied).run(OLD, run)).rejects.toMatchObject({ code: 'unavailable' });
    await expect(open(clients.proxied).claim(NEW)).rejects.toMatchObject({ outcome: 'failed' });
    expect(effects).toBe(0);
  });

  it('leaves nothing of an effect that throws', async () => {
    const before = puts().length;
    const mine = new Error('mine');
    const run = guard.run(OLD, (handle) => {
      handle.put('x');
      throw mine;
    });
    await expect(run).rejects.toBe(mine);
    expect(puts().length).toBe(before);
  });
});

it('a claim gets through between the writes of somebody who never stops writing', async () => {
  const through = open(clients.proxied);
  proxy.setLatency(5);
  let written = 0;
  const zombie = (async () => {
    for (;;) {
      const ending = await through.put(OLD, `${written}`).catch((error: unknown) => error);
      if (ending !== undefined) return ending;
      written += 1;
    }
  })();
  await expect.poll(() => written, { timeout: 10_000 }).toBeGreaterThan(10);
  await open(clients.proxied, { timeoutMs: 10_000 }).claim(NEW);
  expect(await zombie).toMatchObject({ code: 'stale-token', current: NEW });
  expect(peek()).toBe(`${written - 1}`);
});

describe('409 from the store', () => {
  it('is tried again while the token is in force', async () => {
    for (const write of [() => append(guard, OLD, 'x'), () => guard.put(OLD, 'x'), () => guard.claim(NEW)]) {
      server.faults.conflicts = 2;
      await write();
      expect(server.faults.conflicts).toBe(0);
    }
    expect(peek()).toBe('x');
  });

  it('for ever, ends as retry after a bounded number of tries, and is no refusal of the token', async () => {
    const calls = [() => append(guard, OLD, 'x'), () => guard.put(OLD, 'x'), () => guard.claim(NEW)];
    for (const call of calls) {
      server.faults.conflicts = Number.POSITIVE_INFINITY;
      const before = puts().length;
      await expect(call()).rejects.toMatchObject({ code: 'retry', outcome: 'retry' });
      expect(puts().length - before).toBe(6);
      server.heal();
    }
    expect(peek()).toBe('');
    await append(guard, OLD, 'x');
  });

  it('together with a new owner is a refusal', async () => {
    await guard.put(OLD, '');
    await other.claim(NEW);
    server.faults.conflicts = 1;
    await expect(guard.put(OLD, 'late')).rejects.toMatchObject({ code: 'stale-token', current: NEW });
  });
});

describe('a signal', () => {
  const reason = new Error('no longer wanted');

  it('rejects with its reason before the write was sent, with unknown after', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const held = server.holdPut();
    const write = guard.put(OLD, 'x', { signal });
    await held.reached;
    const behind = guard.put(OLD, 'y', { signal });
    const claim = guard.claim(NEW, { signal });
    const ending = expect(write).rejects.toMatchObject({ code: 'unknown', cause: reason });
    const behinds = [expect(behind).rejects.toBe(reason), expect(claim).rejects.toBe(reason)];
    controller.abort(reason);
    await Promise.all([ending, ...behinds]);
    await held.letGo();
    await guard.run(OLD, () => undefined, { requireClaim: true });
    await expect(guard.claim(OLD, { signal })).rejects.toBe(reason);
  });

  it('stops an effect, and nothing of it is written', async () => {
    const controller = new AbortController();
    const run = guard.run(
      OLD,
      async (handle) => {
        handle.put('x');
        controller.abort(reason);
        await new Promise(() => undefined);
      },
      { signal: controller.signal },
    );
    await expect(run).rejects.toBe(reason);
    expect(peek()).toBe('');
  });

  it('in the middle of the write of a run is unknown', async () => {
    const controller = new AbortController();
    const held = server.holdPut();
    const run = guard.run(OLD, (handle) => handle.put('x'), { signal: controller.signal });
    await held.reached;
    controller.abort(reason);
    await expect(run).rejects.toMatchObject({ code: 'unknown', outcome: 'unknown' });
    await held.letGo();
  });
});
