// What is particular to the guard on an object store: the probe (D5), the object, and how writes share it.
import type { S3Client } from '@aws-sdk/client-s3';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { FencingToken } from '@lockkeeper/fencing';
import { parseGuardedObject, type S3GuardOptions, s3Guard } from '@lockkeeper/resource-guard/s3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newS3Client } from './s3/client.ts';
import { type StrictS3, startStrictS3 } from './s3/server.ts';

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

let server: StrictS3;
let client: S3Client;

beforeEach(async () => {
  server = await startStrictS3();
  client = newS3Client(server.url);
});
afterEach(async () => {
  client.destroy();
  await server.stop();
});

const open = (options: Partial<S3GuardOptions> = {}, through: S3Client = client) =>
  s3Guard(through, { bucket: server.bucket, key: 'report', ...options });
const requests = () => server.seen.map(({ method, key, status }) => `${method} ${key} ${status}`);
const text = (bytes = server.peek('report')) =>
  Buffer.from(parseGuardedObject(bytes ?? Buffer.alloc(0)).value ?? '').toString();

describe('the probe', () => {
  it.each([
    ['answers 200 to everything', 'ignoreConditions', /conditional writes not enforced.*If-None-Match/],
    ['shows old objects', 'staleReads', /conditional writes not enforced.*read back/],
  ] as const)('refuses a store that %s, for every verb', async (_, fault, message) => {
    server.faults[fault] = true;
    const guard = open({ missing: 'create' });
    const calls = [
      () => guard.create(),
      () => guard.claim(OLD),
      () => guard.run(OLD, () => expect.fail('the effect ran')),
      () => guard.put(OLD, 'x'),
      () => guard.seal(OLD),
      () => guard.rebase(NEW, { from: OLD }),
      () => guard.probe(),
    ];
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({
        code: 'unavailable',
        message: expect.stringMatching(message),
      });
    }
    expect(server.objects.paths).toEqual([]);
    server.heal();
    await guard.claim(OLD);
  });

  it('runs once for a client and a bucket, and leaves nothing', async () => {
    const guard = open();
    await Promise.all([guard.create(), guard.probe()]);
    const isProbe = ({ key }: { readonly key: string }) => key.startsWith('report.probe-');
    const probes = server.seen.filter(isProbe).length;
    expect(probes).toBeGreaterThan(0);
    await guard.claim(OLD);
    await open({ key: 'another', missing: 'create' }).claim(OLD);
    expect(server.seen.filter(isProbe).length).toBe(probes);
    expect(server.objects.paths).toEqual(['bucket/report', 'bucket/another']);
  });

  it('stands the loss of its own replies', async () => {
    server.faults.lostReplies = 1;
    await open().probe();
  });

  it('can be switched off', async () => {
    await open({ probe: false, missing: 'create' }).claim(OLD);
    expect(requests()).toEqual(['GET report 404', 'PUT report 200']);
  });

  it('that cannot ask is tried again', async () => {
    await server.stop();
    const guard = open({ missing: 'create' });
    await expect(guard.claim(OLD)).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    await server.restart();
    await guard.claim(OLD);
  });
});

describe('the object', () => {
  it('missing, is refused by every verb, before the first token and after it was lost', async () => {
    const guard = open();
    for (let round = 1; round <= 2; round++) {
      const calls = [
        () => guard.claim(OLD),
        () => guard.run(OLD, () => expect.fail('the effect ran')),
        () => guard.put(OLD, 'x'),
        () => guard.seal(OLD),
        () => guard.inspect(),
        () => guard.rebase(NEW, { from: OLD }),
      ];
      for (const call of calls) {
        await expect(call()).rejects.toMatchObject({
          code: 'not-migrated',
          message: expect.stringMatching(/bucket\/report does not exist; call guard.create\(\)/),
        });
      }
      expect(server.objects.paths).toEqual([]);
      expect(await guard.create()).toBe(true);
      expect(await guard.create()).toBe(false);
      await guard.claim(NEW);
      server.objects.delete('bucket/report');
    }
  });

  it('of somebody else is refused, and left as it is', async () => {
    for (const body of ['hello\nworld', '{"lockkeeper":2}\n', '{"lockkeeper":1,"token":"1"}\n']) {
      await client.send(new PutObjectCommand({ Bucket: server.bucket, Key: 'report', Body: body }));
      const guard = open({ missing: 'create' });
      const calls = [
        () => guard.claim(OLD),
        () => guard.put(OLD, 'x'),
        () => guard.create(),
        () => guard.inspect(),
      ];
      for (const call of calls) {
        await expect(call()).rejects.toMatchObject({
          code: 'not-migrated',
          message: expect.stringContaining('holds something that no guard wrote'),
        });
      }
      expect(server.peek('report')?.toString()).toBe(body);
    }
  });

  it('carries any bytes and their type, through claims too, and readers can take it apart', async () => {
    const guard = open();
    await guard.create();
    const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => (index * 31) % 256);
    await guard.put(OLD, bytes, { contentType: 'image/png' });
    await guard.claim(NEW);
    expect(await guard.run(NEW, (handle) => handle.get())).toEqual(bytes);
    const { state, value, contentType } = parseGuardedObject(server.peek('report') as Buffer);
    expect({ ...state, contentType }).toEqual({ token: NEW, sealed: false, contentType: 'image/png' });
    expect(Buffer.from(value ?? '').equals(bytes)).toBe(true);
    await guard.put(NEW, '');
    expect(await guard.run(NEW, (handle) => handle.text())).toBe('');
  });

  it('never has an ETag again, whatever is written', async () => {
    const guard = open();
    await guard.create();
    await guard.claim(OLD);
    const etags = new Set<string | undefined>();
    for (let count = 0; count < 40; count++) {
      await guard.put(OLD, 'same');
      etags.add(server.objects.get('bucket/report')?.etag);
    }
    expect(etags.size).toBe(40);
  });

  it('survives a restart of the store, and connections are made again', async () => {
    const guard = open();
    await guard.create();
    await guard.put(OLD, 'x');
    await server.restart();
    await guard.put(OLD, 'y');
    expect(text()).toBe('y');
  });
});

describe('writes of one hold', () => {
  it('cost a holder who writes alone one request each, a run two', async () => {
    const guard = open({ probe: false, missing: 'create' });
    await guard.claim(OLD);
    server.seen.length = 0;
    await guard.put(OLD, 'x');
    await guard.put(OLD, 'y');
    expect(requests()).toEqual(['PUT report 200', 'PUT report 200']);
    server.seen.length = 0;
    await guard.run(OLD, (handle) => handle.put(`${handle.text()}z`));
    expect(requests()).toEqual(['GET report 200', 'PUT report 200']);
    expect(text()).toBe('yz');
  });

  it('that wait together are one write, in which the last counts', async () => {
    const guard = open({ missing: 'create' });
    await guard.claim(OLD);
    server.seen.length = 0;
    await Promise.all(Array.from({ length: 16 }, (_, index) => guard.put(OLD, `${index}`)));
    expect(requests()).toEqual(['PUT report 200']);
    expect(text()).toBe('15');
  });

  it('of different tokens do not mix', async () => {
    const guard = open({ missing: 'create' });
    const puts = [OLD, NEW, OLD, NEW].map((as, index) => guard.put(as, `${index}`));
    const endings = await Promise.allSettled(puts);
    expect(endings.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'fulfilled']);
    expect(text()).toBe('3');
    await expect(guard.put(OLD, 'late')).rejects.toMatchObject({ code: 'stale-token', current: NEW });
  });

  it('that read what a sibling then replaced ask to be run again, and are not run twice', async () => {
    const [guard, sibling] = [open({ missing: 'create' }), open()];
    await guard.claim(OLD);
    let effects = 0;
    const read = guard.run(OLD, async (handle) => {
      effects += 1;
      const before = handle.text() ?? '';
      await sibling.put(OLD, 'sibling ');
      handle.put(`${before}mine`);
    });
    await expect(read).rejects.toMatchObject({ code: 'retry', outcome: 'retry', token: OLD });
    expect(effects).toBe(1);
    expect(text()).toBe('sibling ');
  });

  it('that did not read are put on top of what a sibling wrote', async () => {
    const [guard, sibling] = [open({ missing: 'create' }), open()];
    await guard.claim(OLD);
    await guard.run(OLD, async (handle) => {
      await sibling.put(OLD, 'sibling');
      await sibling.run(OLD, (inner) => inner.put(`${inner.text()}s`));
      handle.put('mine');
      expect(handle.text()).toBe('mine');
    });
    expect(text()).toBe('mine');
  });

  it('do not follow a new claim from inside their own effect', async () => {
    const [guard, successor] = [open({ missing: 'create' }), open()];
    await guard.claim(OLD);
    for (const reads of [true, false]) {
      const run = guard.run(OLD, async (handle) => {
        if (reads) handle.get();
        await successor.claim(NEW);
        handle.put('late');
      });
      await expect(run).rejects.toMatchObject({ code: 'stale-token', current: NEW });
      await open({ key: 'report' }).seal(NEW);
      server.objects.delete('bucket/report');
      await guard.create();
      await guard.claim(OLD);
    }
  });

  it('end with their effect', async () => {
    const guard = open({ missing: 'create' });
    const handle = await guard.run(OLD, (inside) => inside);
    expect(() => handle.put('late')).toThrow(expect.objectContaining({ code: 'invalid-option' }));
    expect(() => handle.get()).toThrow(/its effect has settled/);
  });
});

describe('bad input is refused before anything is sent', () => {
  it.each([
    [{ bucket: '' }, 'bucket is ""'],
    [{ key: '' }, 'key is ""'],
    [{ key: 'x'.repeat(1000) }, 'bytes of UTF-8'],
    [{ missing: 'maybe' }, 'missing is "maybe"; expected "refuse" or "create"'],
    [{ timeoutMs: 0 }, 'timeoutMs is 0'],
    [{ requestTimeoutMs: 1.5 }, 'requestTimeoutMs is 1.5'],
    [{ probe: 'no' }, 'probe is "no"'],
    [{ resource: '' }, 'resource is ""'],
  ])('%j', (options, message) => {
    expect(() => open(options as never)).toThrow(
      expect.objectContaining({ code: 'invalid-option', message: expect.stringContaining(message) }),
    );
  });

  it('a client that is none, a value that is none or too large', async () => {
    expect(() => s3Guard({} as never, { bucket: 'b', key: 'k' })).toThrow(/client is a plain object/);
    const guard = open();
    await expect(guard.put(OLD, 7 as never)).rejects.toMatchObject({ code: 'invalid-option' });
    const large = new Uint8Array(8 * 1024 * 1024 + 1);
    await expect(guard.put(OLD, large)).rejects.toThrow(/8388609 bytes.*keys of their own/);
    expect(server.seen).toEqual([]);
  });
});
