import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { findEtcds } from './find-server.ts';
import { TemporaryFolder } from './owned-server.ts';

const folder = new TemporaryFolder('lockkeeper-cache-');
afterEach(async () => {
  vi.unstubAllEnvs();
  await folder.remove();
});

it('names a list of servers that cannot be read', async () => {
  const file = join(folder.path, 'manifest.json');
  await writeFile(file, '{ "etcd": [');
  vi.stubEnv('LOCKKEEPER_SERVER_CACHE', folder.path);
  vi.stubEnv('LOCKKEEPER_SERVERS', 'unpacked');
  expect(findEtcds).toThrow(`${file}, the list of unpacked servers, cannot be read: `);
});
