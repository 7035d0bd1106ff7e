import { randomUUID } from 'node:crypto';
import { connect } from '@lockkeeper/core';
import { startEtcd } from '@lockkeeper/testkit';
import { expect, it } from 'vitest';

it('a burst of 500 acquires of one name costs the process none of its holds, and all are served', async () => {
  await using etcd = await startEtcd();
  await using keeper = await connect({ hosts: etcd.endpoint, namespace: randomUUID(), ttlMs: 30_000 });
  const bystander = await keeper.lock('bystander').acquire();
  const turns = Array.from({ length: 500 }, (_, turn) => keeper.lock('x').using({}, () => turn));
  const outcomes = await Promise.allSettled(turns);
  expect(outcomes).toEqual(turns.map((_, turn) => ({ status: 'fulfilled', value: turn })));
  expect(bystander.signal.aborted).toBe(false);
}, 180_000);
