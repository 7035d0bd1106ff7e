// Renewals alone are lost, as behind a proxy that forgets long streams: everything else still works.
import { connect } from '@lockkeeper/core';
import { startEtcd, startGrpcProxy, waitUntil } from '@lockkeeper/testkit';
import { expect, it } from 'vitest';

it('a hold survives renewals that are lost for less than its TTL, and ends in time with more', async () => {
  await using etcd = await startEtcd({ own: true });
  await using proxy = await startGrpcProxy(etcd.endpoint);
  await using keeper = await connect({ hosts: proxy.url, ttlMs: 6_000 });
  const hold = await keeper.lock('x').acquire();
  {
    using loss = proxy.dropKeepAlives();
    await waitUntil('a renewal was lost', () => loss.dropped > 0);
  }
  await waitUntil('renewed again', () => hold.remainingMs() > 4_000);
  expect(hold.standing).toBe('held');
  const { accepted } = proxy;

  using loss = proxy.dropKeepAlives();
  const other = await keeper.lock('y').tryAcquire();
  expect(other.hold?.standing).toBe('held');
  await waitUntil('lost', () => hold.standing === 'lost');
  expect(hold.signal.reason).toMatchObject({ lossCause: 'unconfirmed' });
  expect(loss.dropped).toBeGreaterThan(1);
  expect((await keeper.coordinator.range({ key: 'any' })).count).toBe(0);
  expect(proxy.accepted).toBe(accepted);
});
