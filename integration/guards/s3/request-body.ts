// The body of a request as it was meant: out of `aws-chunked` framing, and checked against every checksum that
// came with it. A damaged body is refused rather than stored.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { crc32 } from 'node:zlib';
import { S3Refusal } from './refusal.ts';

export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const raw = Buffer.concat(parts);
  const sha256 = `${request.headers['x-amz-content-sha256'] ?? ''}`;
  const { bytes, trailer } = sha256.startsWith('STREAMING-') ? unchunk(raw) : { bytes: raw, trailer: {} };
  check(bytes, { ...request.headers, ...trailer }, sha256);
  return bytes;
}

/** `<hex size>[;chunk-signature=…]\r\n<bytes>\r\n`, up to a chunk of size 0, then trailers. */
function unchunk(raw: Buffer): { bytes: Buffer; trailer: Record<string, string> } {
  const chunks: Buffer[] = [];
  let at = 0;
  for (;;) {
    const end = raw.indexOf('\r\n', at);
    const size = Number.parseInt(raw.subarray(at, end).toString(), 16);
    if (end < 0 || Number.isNaN(size)) throw new S3Refusal(400, 'IncompleteBody', 'the chunks do not add up');
    at = end + 2;
    if (size === 0) break;
    chunks.push(raw.subarray(at, at + size));
    at += size + 2;
  }
  const lines = raw.subarray(at).toString().split('\r\n').filter(Boolean);
  const trailer = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  return { bytes: Buffer.concat(chunks), trailer };
}

function check(bytes: Buffer, headers: Readonly<Record<string, unknown>>, sha256: string): void {
  const decoded = headers['x-amz-decoded-content-length'];
  if (decoded !== undefined && Number(decoded) !== bytes.length) {
    throw new S3Refusal(400, 'IncompleteBody', `${bytes.length} bytes came, ${decoded} were announced`);
  }
  const hash = (name: string) => createHash(name).update(bytes).digest();
  const crc = Buffer.alloc(4);
  crc.writeUInt32BE(crc32(bytes));
  const sums: [string, () => string][] = [
    ['x-amz-checksum-crc32', () => crc.toString('base64')],
    ['x-amz-checksum-sha256', () => hash('sha256').toString('base64')],
    ['content-md5', () => hash('md5').toString('base64')],
  ];
  for (const [name, sum] of sums) {
    const given = headers[name];
    if (given !== undefined && given !== sum())
      throw new S3Refusal(400, 'BadDigest', `${name} did not match`);
  }
  if (/^[0-9a-f]{64}$/.test(sha256) && hash('sha256').toString('hex') !== sha256) {
    throw new S3Refusal(400, 'XAmzContentSHA256Mismatch', 'x-amz-content-sha256 did not match');
  }
}
