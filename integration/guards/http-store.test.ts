// The store that the matrix and the benchmark use: it keeps what it answered over a restart, and a restored
// older copy is told apart by nothing but the tokens.
import { FencingToken } from '@lockkeeper/fencing';
import { chunkContaining } from '@lockkeeper/testkit';
import { expect, it } from 'vitest';
import { openHttpStore } from './stores/http.ts';

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });

it('keeps what was written over a restart, and takes an older copy back', async () => {
  await using store = await openHttpStore();
  const account = await store.newAccount();
  await using one = await account.newClient();
  await using two = await account.newClient();
  expect(await account.peek()).toBe('');
  await one.guard.claim(token(1n));
  await one.writeGuarded(token(1n), 'first');
  const restore = await store.backup();
  await two.guard.claim(token(2n));
  await two.guard.run(token(2n), async (send) => two.write(send, `${await two.read(send)} second`));
  await store.restart();
  expect(await account.peek()).toBe('first second');
  await expect(one.writeGuarded(token(1n), 'late')).rejects.toMatchObject({ code: 'stale-token' });
  await restore();
  expect(await account.peek()).toBe('first');
  await two.writeGuarded(token(2n), 'again');
  await expect(one.writeGuarded(token(1n), 'late')).rejects.toMatchObject({ code: 'stale-token' });
  await two.writePlain('plain');
  expect(await account.peek()).toBe('plain');
});

it('a write in the network is late, one whose reply is lost is unknown', async () => {
  await using store = await openHttpStore();
  const account = await store.newAccount();
  await using one = await account.newClient();
  await using two = await account.newClient();
  if (one.proxy === undefined || two.proxy === undefined) throw new Error('the clients have no proxies');
  await one.guard.claim(token(1n));
  const held = one.proxy.hold({ direction: 'request', match: one.carriesWrite });
  const late = one.writeGuarded(token(1n), 'late').catch((error: unknown) => error);
  await held.held;
  await two.guard.claim(token(2n));
  await held.release();
  expect(await late).toMatchObject({ code: 'stale-token', outcome: 'rejected' });
  const lost = two.proxy.loseReply({ match: two.carriesWrite, reply: chunkContaining('HTTP/1.1') });
  const written = two.writeGuarded(token(2n), 'written').catch((error: unknown) => error);
  await lost.lost;
  lost.restore();
  expect(await written).toMatchObject({ code: 'unknown', outcome: 'unknown' });
  expect(await account.peek()).toBe('written');
});
