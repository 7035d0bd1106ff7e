// Messages on a stream of bytes: each is its length in four bytes, and then its structured clone.
import type { Duplex } from 'node:stream';
import { deserialize, serialize } from 'node:v8';

const HEAD = 4;

/** Calls `take` for every message that comes. */
export function readFrames<T>(stream: Duplex, take: (message: T) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= HEAD) {
      const end = HEAD + rest.readUInt32BE();
      if (rest.length < end) return;
      const message = deserialize(rest.subarray(HEAD, end)) as T;
      rest = rest.subarray(end);
      take(message);
    }
  });
}

/** @throws DataCloneError where structured clone cannot carry it. */
export function frameOf(message: unknown): Buffer {
  const body = serialize(message);
  const frame = Buffer.allocUnsafe(HEAD + body.length);
  frame.writeUInt32BE(body.length);
  body.copy(frame, HEAD);
  return frame;
}

/** Resolves when the kernel has it, rejects when the other end is gone. */
export function writeFrame(stream: Duplex, frame: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(frame, (error) => (error ? reject(error) : resolve()));
  });
}
