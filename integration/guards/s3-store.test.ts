// The store that the matrix and the benchmark use: it keeps what it answered over a restart, and a restored
// older copy is told apart by nothing but the tokens.
import { FencingToken } from '@lockkeeper/fencing';
import { expect, it } from 'vitest';
import { openS3Store } from './stores/s3.ts';

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });

it('keeps what was written over a restart, and takes an older copy back', async () => {
  await using store = await openS3Store();
  const account = await store.newAccount();
  await using one = await account.newClient();
  await using two = await account.newClient();
  expect(await account.peek()).toBe('');
  await one.guard.claim(token(1n));
  await one.writeGuarded(token(1n), 'first');
  const restore = await store.backup();
  await two.guard.claim(token(2n));
  await two.guard.run(token(2n), async (handle) => two.write(handle, `${await two.read(handle)} second`));
  await store.restart();
  expect(await account.peek()).toBe('first second');
  await expect(one.writeGuarded(token(1n), 'late')).rejects.toMatchObject({ code: 'stale-token' });
  await restore();
  expect(await account.peek()).toBe('first');
  await two.writeGuarded(token(2n), 'again');
  await expect(one.writeGuarded(token(1n), 'late')).rejects.toMatchObject({ code: 'stale-token' });
  expect(await account.peek()).toBe('again');
});
