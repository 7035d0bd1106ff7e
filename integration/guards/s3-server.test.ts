// The strict server answers as S3 does: what the guard is tested on must not be laxer than what it is made for.
import { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type PutObjectCommandInput,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newS3Client } from './s3/client.ts';
import { type StrictS3, startStrictS3 } from './s3/server.ts';

let server: StrictS3;
let client: S3Client;

beforeAll(async () => {
  server = await startStrictS3();
  client = newS3Client(server.url, { maxAttempts: 1 });
});
afterAll(async () => {
  client?.destroy();
  await server?.stop();
});

const at = (Key: string) => ({ Bucket: server.bucket, Key });
const put = (Key: string, input: Partial<PutObjectCommandInput>) =>
  client.send(new PutObjectCommand({ ...at(Key), Body: 'body', ...input }));
const refused = (status: number, name: string) =>
  expect.objectContaining({
    name,
    $metadata: expect.objectContaining({ httpStatusCode: status, attempts: 1 }),
  });

describe('a PUT', () => {
  it('with If-None-Match creates, and never replaces', async () => {
    await put('created', { IfNoneMatch: '*' });
    await expect(put('created', { IfNoneMatch: '*' })).rejects.toEqual(refused(412, 'PreconditionFailed'));
    await expect(put('created', { IfNoneMatch: '"etag"' })).rejects.toEqual(refused(501, 'NotImplemented'));
  });

  it('with If-Match replaces just that, and never creates', async () => {
    const { ETag } = await put('replaced', { Body: 'one' });
    await expect(put('replaced', { IfMatch: '"other"' })).rejects.toEqual(refused(412, 'PreconditionFailed'));
    await put('replaced', { Body: 'two', IfMatch: ETag });
    await expect(put('replaced', { IfMatch: ETag })).rejects.toEqual(refused(412, 'PreconditionFailed'));
    await expect(put('absent', { IfMatch: ETag })).rejects.toEqual(refused(404, 'NoSuchKey'));
    expect(server.peek('replaced')?.toString()).toBe('two');
    expect(server.peek('absent')).toBeUndefined();
  });

  it('of equal contents gives equal ETags', async () => {
    const [one, two] = [await put('equal-1', {}), await put('equal-2', {})];
    expect(one.ETag).toMatch(/^"[0-9a-f]{32}"$/);
    expect(two.ETag).toBe(one.ETag);
  });

  it('comes out of the framing in which the SDK sends streams', async () => {
    const text = 'part '.repeat(30_000);
    await put('stream', { Body: Readable.from([Buffer.from(text)]), ContentLength: text.length });
    expect(server.peek('stream')?.toString()).toBe(text);
  });

  it('that was damaged on the way is refused', async () => {
    const headers = { authorization: 'AWS4-HMAC-SHA256 Credential=key', 'x-amz-checksum-crc32': 'AAAAAA==' };
    const reply = await fetch(`${server.url}/bucket/damaged`, { method: 'PUT', body: 'body', headers });
    expect([reply.status, await reply.text()]).toEqual([
      400,
      expect.stringContaining('<Code>BadDigest</Code>'),
    ]);
    expect(server.peek('damaged')).toBeUndefined();
  });

  it('without a signature, or to another bucket, is refused', async () => {
    const reply = await fetch(`${server.url}/bucket/unsigned`, { method: 'PUT', body: 'body' });
    expect(reply.status).toBe(403);
    await reply.text();
    const elsewhere = new PutObjectCommand({ Bucket: 'elsewhere', Key: 'key', Body: 'body' });
    await expect(client.send(elsewhere)).rejects.toEqual(refused(404, 'NoSuchBucket'));
  });
});

it('GET, HEAD and DELETE know conditions too', async () => {
  const { ETag } = await put('read', { Body: 'text', ContentType: 'text/x-mine' });
  const got = await client.send(new GetObjectCommand({ ...at('read'), IfMatch: ETag }));
  expect([await got.Body?.transformToString(), got.ETag, got.ContentType]).toEqual([
    'text',
    ETag,
    'text/x-mine',
  ]);
  expect((await client.send(new HeadObjectCommand(at('read')))).ContentLength).toBe(4);
  const unchanged = client.send(new GetObjectCommand({ ...at('read'), IfNoneMatch: ETag }));
  await expect(unchanged).rejects.toEqual(refused(304, 'Unknown'));
  const other = client.send(new GetObjectCommand({ ...at('read'), IfMatch: '"other"' }));
  await expect(other).rejects.toEqual(refused(412, 'PreconditionFailed'));
  await client.send(new DeleteObjectCommand(at('read')));
  await expect(client.send(new GetObjectCommand(at('read')))).rejects.toEqual(refused(404, 'NoSuchKey'));
});
