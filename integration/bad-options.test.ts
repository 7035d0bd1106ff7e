import { connect, fencedTxn, type Keeper, LockkeeperError, type Logger } from '@lockkeeper/core';
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

describe('the limits of a call are checked by', () => {
  const calls: readonly [string, (keeper: Keeper, options: never) => Promise<unknown>][] = [
    ['semaphore.available', (keeper, options) => keeper.semaphore('x', { permits: 2 }).available(options)],
    ['semaphore.resize', (keeper, options) => keeper.semaphore('x', { permits: 2 }).resize(3, options)],
    ['election.leader', (keeper, options) => keeper.election('x').leader(options)],
    ['inspect', (keeper, options) => keeper.inspect('x', options)],
    [
      'inspect of a semaphore',
      (keeper, options) => keeper.inspect('x', { kind: 'semaphore', ...(options as object) }),
    ],
    ['list', (keeper, options) => keeper.list(options)],
    [
      'fencedTxn',
      async (keeper, options) => {
        const hold = await keeper.lock('x').acquire();
        return fencedTxn(hold)
          .put('k', 'v')
          .commit(options)
          .finally(() => hold.release());
      },
    ],
  ];
  it.each(calls)('%s', async (_, call) => {
    await using keeper = await connect({ coordinator: memoryCoordinator() });
    const refusals = [
      [{ timeoutMs: Number.NaN }, /^timeoutMs is NaN; expected milliseconds/],
      [{ timeoutMs: -1 }, /^timeoutMs is -1;/],
      [{ timeoutMs: '5' }, /^timeoutMs is "5";/],
      [{ signal: {} }, /^signal is \[object Object\]; expected an AbortSignal/],
      [{ signal: Object.create(null) }, /^signal is a value of type object;/],
    ] as const;
    for (const [options, message] of refusals) {
      const failed = await call(keeper, options as never).catch((error: unknown) => error);
      expect(failed).toMatchObject({ code: 'invalid-option', message: expect.stringMatching(message) });
    }
    await expect(keeper.list({ kinds: ['semaphore'] })).resolves.toEqual([]);
  });

  it('term.proclaim, which rejects', async () => {
    await using keeper = await connect({ coordinator: memoryCoordinator() });
    const term = await keeper.election('x').campaign({ value: 'a' });
    const proclaimed = term.proclaim('b', { signal: {} as AbortSignal });
    await expect(proclaimed).rejects.toMatchObject({
      code: 'invalid-option',
      message: expect.stringMatching(/^signal is/),
    });
    await expect(term.proclaim(5 as never)).rejects.toThrow(/^value is 5/);
    expect((await keeper.election('x').leader())?.value).toBe('a');
  });
});

it('a name in a set is told by its place', async () => {
  await using keeper = await connect({ coordinator: memoryCoordinator() });
  expect(() => keeper.locks(['a', 5 as never])).toThrow(/^names\[1\] is 5;/);
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
