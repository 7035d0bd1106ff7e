// The strict S3 server as a guarded store: in this process, its objects in a folder, so that it can be stopped
// and started, and put back to an older copy.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { parseGuardedObject, type S3Handle, s3Guard } from '@lockkeeper/resource-guard/s3';
import { chunkContaining } from '@lockkeeper/testkit';
import { newS3Client } from '../s3/client.ts';
import { type StrictS3, startStrictS3 } from '../s3/server.ts';
import type { Account, ClientOptions, GuardedStore, StoreClient } from './store.ts';
import { openWay } from './way.ts';

export async function openS3Store(): Promise<GuardedStore<S3Handle>> {
  const folder = await mkdtemp(join(tmpdir(), 'lockkeeper-s3-'));
  const server = await startStrictS3({ folder: join(folder, 'objects') });
  let copies = 0;
  return {
    name: 'S3 (strict server of the tests)',
    newAccount: () => newAccount(server),
    restart: () => server.restart(),
    backup: async () => {
      copies += 1;
      const copy = join(folder, `copy-${copies}`);
      server.objects.copyTo(copy);
      return async () => {
        await server.stop();
        server.objects.copyFrom(copy);
        await server.start();
      };
    },
    [Symbol.asyncDispose]: async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function newAccount(server: StrictS3): Promise<Account<S3Handle>> {
  const key = `accounts/${randomUUID()}`;
  const options = { bucket: server.bucket, key };
  const client = newS3Client(server.url);
  try {
    await s3Guard(client, options).create();
  } finally {
    client.destroy();
  }
  return {
    resource: `s3://${server.bucket}/${key}`,
    peek: async () => textOf(parseGuardedObject(server.peek(key) ?? Buffer.alloc(0)).value),
    peekPlain: async () => textOf(server.peek(`${key}-plain`)),
    newClient: (options) => newClient(server, key, options),
  };
}

async function newClient(
  server: StrictS3,
  key: string,
  options?: ClientOptions,
): Promise<StoreClient<S3Handle>> {
  const way = await openWay(server.url, options);
  const client = newS3Client(way.url);
  const guard = s3Guard(client, { bucket: server.bucket, key });
  await guard.probe();
  return {
    guard,
    proxy: way.proxy,
    carriesWrite: chunkContaining(`PUT /${server.bucket}/${key}`),
    read: async (handle) => handle.text() ?? '',
    write: async (handle, text) => handle.put(text),
    writeGuarded: (token, text) => guard.put(token, text),
    writePlain: async (text) => {
      // Beside the guarded object, which a plain write would break.
      await client.send(new PutObjectCommand({ Bucket: server.bucket, Key: `${key}-plain`, Body: text }));
    },
    [Symbol.asyncDispose]: async () => {
      client.destroy();
      await way.close();
    },
  };
}

function textOf(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? '').toString();
}
