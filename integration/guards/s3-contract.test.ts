import type { S3Client } from '@aws-sdk/client-s3';
import { describeGuard, type GuardSubject } from '@lockkeeper/resource-guard/contract';
import { parseGuardedObject, type S3Handle, s3Guard } from '@lockkeeper/resource-guard/s3';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { newS3Client } from './s3/client.ts';
import { type StrictS3, startStrictS3 } from './s3/server.ts';

let server: StrictS3;
let clients: [S3Client, S3Client];

beforeAll(async () => {
  server = await startStrictS3();
  clients = [newS3Client(server.url), newS3Client(server.url)];
});
afterAll(async () => {
  for (const client of clients ?? []) client.destroy();
  await server?.stop();
});

let accounts = 0;

const subject: GuardSubject<S3Handle> = {
  name: 'S3',
  open: async () => {
    accounts += 1;
    const key = `accounts/ü ${accounts}`;
    const options = { bucket: server.bucket, key };
    const [guard, other] = [s3Guard(clients[0], options), s3Guard(clients[1], options)];
    await guard.create();
    return {
      guard,
      other,
      value: {
        read: async (handle) => handle.text() ?? '',
        write: async (handle, value) => handle.put(value),
        peek: async () => Buffer.from(parseGuardedObject(server.peek(key) as Buffer).value ?? '').toString(),
        holdWrites: async () => server.holdPut(),
      },
    };
  },
};

describeGuard(subject, { describe, it });
