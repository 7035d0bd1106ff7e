// I5: what a user's test with fake timers finds.
import { connect } from '@lockkeeper/core';
import { memoryCoordinator } from '@lockkeeper/core/memory';
import { FaultyCoordinator, startEtcd, waitUntilQueued } from '@lockkeeper/testkit';
import { afterEach, expect, it, vi } from 'vitest';

afterEach(() => {
  vi.useRealTimers();
});

it('a lock in memory lives and expires as the fake timers are moved on', async () => {
  vi.useFakeTimers();
  const connection = new FaultyCoordinator(memoryCoordinator());
  const owner = await connect({ coordinator: connection, ttlMs: 5_000 });
  const hold = await owner.lock('x').acquire();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(hold.standing).toBe('held');

  connection.goSilent();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(hold.standing).toBe('lost');
  expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'unconfirmed' });
  connection.heal();
  const closing = owner.close();
  await vi.advanceTimersByTimeAsync(5_000);
  await closing;
});

it('a waiter in memory is granted when the lease of a silent holder expires', async () => {
  vi.useFakeTimers();
  const inner = memoryCoordinator();
  const connection = new FaultyCoordinator(inner);
  const owner = await connect({ coordinator: connection, ttlMs: 5_000 });
  const other = await connect({ coordinator: memoryCoordinator({ store: inner.store }) });
  await owner.lock('x').acquire();
  const waiting = other.lock('x').acquire();
  await waitUntilQueued(other, 'x', 1);
  connection.goSilent();
  await vi.advanceTimersByTimeAsync(7_000);
  expect((await waiting).standing).toBe('held');
  const closing = Promise.all([owner.close(), other.close()]);
  await vi.advanceTimersByTimeAsync(20_000);
  await closing;
});

it('on etcd a test may fake the date, and is told so when it fakes all timers', async () => {
  await using etcd = await startEtcd();
  vi.useFakeTimers({ toFake: ['Date'], now: 0 });
  await using keeper = await connect({ hosts: etcd.endpoint });
  const hold = await keeper.lock('fake-timers').acquire();
  vi.setSystemTime(60_000);
  expect((await hold.release()).outcome).toBe('released');
  vi.useRealTimers();

  vi.useFakeTimers();
  await expect(connect({ hosts: etcd.endpoint })).rejects.toMatchObject({
    code: 'invalid-option',
    message: expect.stringContaining("vi.useFakeTimers({ toFake: ['Date'] })"),
  });
  await expect(keeper.lock('fake-timers').acquire()).rejects.toThrow('memoryCoordinator()');
  vi.useRealTimers();

  // These go on by themselves.
  vi.useFakeTimers({ shouldAdvanceTime: true });
  expect((await keeper.lock('fake-timers').acquire()).standing).toBe('held');
  vi.useRealTimers();
});
