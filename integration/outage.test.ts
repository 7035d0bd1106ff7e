import { randomUUID } from 'node:crypto';
import { connect } from '@lockkeeper/core';
import { startEtcd } from '@lockkeeper/testkit';
import { expect, it } from 'vitest';

it('an acquire rides out a short outage of etcd, with a session and without one', async () => {
  await using etcd = await startEtcd({ own: true });
  const connectOne = () => connect({ hosts: etcd.endpoint, namespace: randomUUID(), ttlMs: 20_000 });
  await using withSession = await connectOne();
  await using withoutSession = await connectOne();
  const held = await withSession.lock('held').acquire();

  await etcd.kill();
  const acquires = [withSession, withoutSession].map((keeper) =>
    keeper.lock('x').acquire({ waitTimeoutMs: 15_000 }),
  );
  const within = await withSession
    .lock('y')
    .acquire({ waitTimeoutMs: 300 })
    .catch((error: unknown) => error);
  expect(within).toMatchObject({ code: 'unreachable', cause: { code: 'unreachable' } });
  expect(String(within)).toMatch(/within 300 ms.*127\.0\.0\.1/);
  await etcd.restart();
  for (const hold of await Promise.all(acquires)) expect(hold.standing).toBe('held');
  expect(held.standing).toBe('held');
});
