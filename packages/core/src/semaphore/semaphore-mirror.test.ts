import { expect, test } from 'vitest';
import { memoryCoordinator } from '../coordinator/memory/memory-coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import { KeyLayout } from '../lock/key-layout.ts';
import { AbortScope } from '../signals.ts';
import { PermitSeat, SemaphoreMirror } from './semaphore-mirror.ts';

const keys = new KeyLayout('ns').semaphore('x');

/** A mirror on a semaphore of two permits with two in its queue. */
async function mirrorOfTwo() {
  const coordinator = memoryCoordinator();
  const put = async (key: string, value = '') => {
    const txn = { compare: [], success: [{ op: 'put', key, value } as const], failure: [] };
    return (await coordinator.txn(txn)).revision;
  };
  await put(keys.limit, '2');
  const inLine: { key: string; token: bigint; permits: number }[] = [];
  for (const name of ['a', 'b']) {
    const key = `${keys.queue.keys}${name}`;
    inLine.push({ key, token: await put(key), permits: 2 });
  }
  let ends = 0;
  const mirror = new SemaphoreMirror(coordinator, keys, () => {
    ends += 1;
  });
  const [join, joinToo] = inLine.map(
    (place) => () => new PermitSeat(place, mirror, new AbortScope(), () => {}),
  );
  if (join === undefined || joinToo === undefined) throw new Error('two are in line');
  return { coordinator, join, joinToo, ends: () => ends };
}

test('each is told a slot of his own, and those who are done end it', async () => {
  const { coordinator, join, joinToo, ends } = await mirrorOfTwo();
  const seats = [join(), joinToo()];
  const told = await Promise.all(seats.map((seat) => seat.next()));
  expect(told).toEqual([
    { slot: 0, stored: '2' },
    { slot: 1, stored: '2' },
  ]);
  for (const seat of seats) seat.leave();
  expect(ends()).toBe(1);
  await coordinator.close();
});

test('whoever comes back from a try when it cannot be read any more is told why', async () => {
  const { coordinator, join, joinToo, ends } = await mirrorOfTwo();
  const first = join();
  expect(await first.next()).toEqual({ slot: 0, stored: '2' });
  const refusal = new LockkeeperError('permission-denied', 'no rights any more');
  coordinator.txn = () => Promise.reject(refusal);
  await expect(joinToo().next()).rejects.toBe(refusal);
  await expect(first.next()).rejects.toBe(refusal);
  expect(ends()).toBe(1);
  await coordinator.close();
});
