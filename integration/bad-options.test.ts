import { connect, LockkeeperError, type Logger } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { describe, expect, it, onTestFinished } from 'vitest';

describe('connect refuses at once, naming the field,', () => {
  const good = memoryCoordinator();
  it.each([
    [null, /options is null/],
    ['http://localhost', /options is "http/],
    [{}, /hosts is undefined/],
    [{ hosts: 'ftp://x' }, /hosts is "ftp/],
    [{ coordinator: {} }, /coordinator is .*lacks describe/],
    [{ coordinator: Promise.resolve(good) }, /coordinator is .*lacks/],
    [{ coordinator: 'memory' }, /coordinator is "memory"/],
    [{ coordinator: good, logger: {} }, /logger is .*lacks debug\(\), info\(\), warn\(\), error\(\)/],
    [{ coordinator: good, logger: () => undefined }, /logger/],
    [{ coordinator: good, logger: null }, /logger is null/],
    [{ coordinator: good, namespace: '' }, /namespace is ""/],
    [{ coordinator: good, identity: 7 }, /identity is 7/],
    [{ coordinator: good, ttlMs: 10_000, marginMs: 5_000 }, /marginMs is 5000/],
  ])('%o', async (options, message) => {
    const failed = await connect(options as never).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(LockkeeperError);
    expect(failed).toMatchObject({ code: 'invalid-option', message: expect.stringMatching(message) });
  });
});

it('tryAcquire takes no other options than acquire does', async () => {
  await using keeper = await connect({ coordinator: memoryCoordinator() });
  for (const options of [null, 5, 'x', () => undefined]) {
    await expect(keeper.lock('x').tryAcquire(options as never)).rejects.toMatchObject({
      code: 'invalid-option',
    });
    await expect(keeper.lock('x').acquire(options as never)).rejects.toMatchObject({
      code: 'invalid-option',
    });
  }
});

it('a logger that throws hides no loss, breaks nothing, and shows as a warning', async () => {
  const warnings: string[] = [];
  // In place of Node's own listener, which prints them.
  const printing = process.listeners('warning');
  process.removeAllListeners('warning').on('warning', (warning) => warnings.push(warning.message));
  onTestFinished(() => {
    process.removeAllListeners('warning');
    for (const listener of printing) process.on('warning', listener);
  });
  const fail = () => {
    throw new Error('disk full');
  };
  const logger: Logger = { debug: fail, info: fail, warn: fail, error: fail };
  const clock = new VirtualClock();
  const coordinator = memoryCoordinator({ store: memoryStore({ clock }) });
  const keeper = await connect({ coordinator, logger, ttlMs: 10_000, namespace: 'n' });
  const hold = await keeper.lock('x').acquire();
  let told = 0;
  hold.signal.addEventListener('abort', () => (told += 1));
  const { kvs } = await coordinator.range({ key: 'n/lock/x/', rangeEnd: 'n/lock/x0' });
  await coordinator.revoke(kvs[0]?.lease ?? 0n);
  await clock.advance(5_000);
  expect(told).toBe(1);
  expect(hold.standing).toBe('lost');
  await keeper.close();
  expect(warnings.join()).toContain('disk full');
});
