import { connect } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { afterEach, expect, test, vi } from 'vitest';
import { waitUntil, waitUntilQueued } from './wait-until.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('waits for as many as are asked for, while the virtual clock stands still', async () => {
  const store = memoryStore({ clock: new VirtualClock() });
  const open = () => connect({ coordinator: memoryCoordinator({ store }) });
  await using holder = await open();
  await using first = await open();
  await using second = await open();
  const hold = await holder.lock('x').acquire();
  const served: string[] = [];
  const visit = (name: string, lock: ReturnType<typeof first.lock>) =>
    lock.using({}, () => {
      served.push(name);
    });
  const a = visit('a', first.lock('x'));
  await waitUntilQueued(holder, 'x', 1);
  const b = visit('b', second.lock('x'));
  const { holders, waiters } = await waitUntilQueued(holder, 'x', 2);
  expect([holders.length, waiters.length]).toEqual([1, 2]);
  await hold.release();
  await Promise.all([a, b]);
  expect(served).toEqual(['a', 'b']);
});

test('says how many wait when they are too few', async () => {
  await using keeper = await connect({ coordinator: memoryCoordinator({ clock: new VirtualClock() }) });
  await expect(waitUntilQueued(keeper, 'x', 2, { timeoutMs: 30 })).rejects.toMatchObject({
    code: 'timeout',
    message: 'not within 30 ms: 2 contenders wait for "x"; 0 do',
  });
  await expect(waitUntilQueued(keeper, 'x', 0)).rejects.toMatchObject({ code: 'invalid-option' });
});

test('takes no time that is none, by which it would never end', async () => {
  for (const timeoutMs of [Number.NaN, -1, '5' as never]) {
    await expect(waitUntil('never', () => false, { timeoutMs })).rejects.toMatchObject({
      code: 'invalid-option',
      message: expect.stringContaining('timeoutMs is'),
    });
  }
});

test("goes on while a test's fake timers stand still", async () => {
  vi.useFakeTimers();
  let looks = 0;
  await waitUntil('the third look', () => ++looks === 3);
  await expect(waitUntil('never', () => false, { timeoutMs: 30 })).rejects.toMatchObject({ code: 'timeout' });
});
