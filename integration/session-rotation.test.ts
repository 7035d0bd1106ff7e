import { connect } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { FaultyCoordinator, isEnqueue } from '@lockkeeper/testkit';
import { expect, it } from 'vitest';

it('a session that has left a thousand cancelled keys behind is replaced, and its lease goes with its last hold', async () => {
  const clock = new VirtualClock();
  const store = memoryStore({ clock });
  const connection = new FaultyCoordinator(memoryCoordinator({ store }));
  const keeper = await connect({ coordinator: connection, namespace: 'n' });
  const leases = new Set<bigint>();
  const count = () => store.range({ key: 'n/cancelled/', rangeEnd: 'n/cancelled0' }).count;

  const kept = await keeper.lock('kept').acquire();
  for (let round = 0; round < 1_000; round += 1) {
    connection.loseNextReply(isEnqueue);
    const acquiring = keeper.lock('x').acquire();
    await clock.advance(60);
    const hold = await acquiring;
    leases.add(store.range({ key: 'n/lock/x/', rangeEnd: 'n/lock/x0' }).kvs[0]?.lease ?? 0n);
    await hold.release();
  }
  expect(leases.size).toBe(1);
  expect(count()).toBe(1_000);

  const next = await keeper.lock('x').acquire();
  const fresh = store.range({ key: 'n/lock/x/', rangeEnd: 'n/lock/x0' }).kvs[0]?.lease;
  expect(leases.has(fresh ?? 0n)).toBe(false);
  expect(kept.standing).toBe('held');
  expect(count()).toBe(1_000);

  // Its last hold renews it for as long as it lives.
  await clock.advance(60_000);
  expect(kept.standing).toBe('held');
  expect(await kept.release()).toMatchObject({ outcome: 'released' });
  await clock.advance(0);
  expect(count()).toBe(0);
  expect(next.standing).toBe('held');
  await keeper.close();
  expect(clock.pendingTimers).toBe(0);
});
