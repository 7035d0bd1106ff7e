import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { type Coordinator, prefixSpan, type WatchEvent } from '../coordinator.ts';
import { memoryCoordinator } from './memory-coordinator.ts';
import { VirtualClock } from './virtual-clock.ts';

const ALL = prefixSpan('k/');

function put(coordinator: Coordinator, key: string, lease = 0n) {
  return coordinator.txn({ compare: [], success: [{ op: 'put', key, value: '', lease }], failure: [] });
}

afterEach(() => {
  vi.useRealTimers();
});

describe('memory coordinator', () => {
  test('has a store of its own, unless one is shared', async () => {
    const first = memoryCoordinator();
    const second = memoryCoordinator({ store: first.store });
    const stranger = memoryCoordinator();
    await put(first, 'k/a');
    expect(await second.range(ALL)).toMatchObject({ count: 1, revision: 2n });
    expect(await stranger.range(ALL)).toMatchObject({ count: 0, revision: 1n });
    expect(second.clock).toBe(first.clock);
  });

  test('advances with fake timers when it is on the real clock', async () => {
    vi.useFakeTimers();
    const coordinator = memoryCoordinator();
    await coordinator.grant({ lease: 1n, ttlMs: 5_000 });
    const { revision } = await put(coordinator, 'k/a', 1n);
    const events: WatchEvent[] = [];
    coordinator.watch(
      { ...ALL, startRevision: revision + 1n },
      { onEvents: (batch) => events.push(...batch), onEnd: () => {} },
    );
    await vi.advanceTimersByTimeAsync(4_999);
    expect(events).toEqual([]);
    expect(await coordinator.renew(1n)).toEqual({ ttlMs: 5_000 });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(events).toEqual([{ type: 'delete', key: 'k/a', modRevision: revision + 1n }]);
    expect(await coordinator.renew(1n)).toEqual({ ttlMs: 0 });
  });

  test('a handler that throws is an uncaught exception, and hinders neither the store nor the next events', async () => {
    await using uncaught = catchUncaught();
    const coordinator = memoryCoordinator();
    const seen: string[] = [];
    const keysOf = (events: readonly WatchEvent[]) =>
      events.map((event) => (event.type === 'put' ? event.kv.key : event.key));
    coordinator.watch(
      { ...ALL, startRevision: 1n },
      {
        onEvents: (events) => {
          seen.push(`first ${keysOf(events)}`);
          throw new Error(`from a handler, at ${keysOf(events)}`);
        },
        onEnd: () => {
          throw new Error('from a handler, at the end');
        },
      },
    );
    coordinator.watch(
      { ...ALL, startRevision: 1n },
      { onEvents: (events) => seen.push(`second ${keysOf(events)}`), onEnd: () => seen.push('second end') },
    );
    await put(coordinator, 'k/a');
    await put(coordinator, 'k/b');
    await coordinator.close();
    expect(seen).toEqual(['first k/a', 'second k/a', 'first k/b', 'second k/b', 'second end']);
    await expect
      .poll(() => uncaught.messages)
      .toEqual(['from a handler, at k/a', 'from a handler, at k/b', 'from a handler, at the end']);
  });

  test('a change and what it leads to in the same turn arrive together, whole', async () => {
    const coordinator = memoryCoordinator();
    const calls: number[] = [];
    coordinator.watch(
      { ...ALL, startRevision: 1n },
      { onEvents: (events) => calls.push(events.length), onEnd: () => {} },
    );
    await Promise.all(['k/a', 'k/b', 'k/c'].map((key) => put(coordinator, key)));
    await put(coordinator, 'k/d');
    expect(calls).toEqual([3, 1]);
  });

  test('a refused watch leaves nothing behind', async () => {
    const coordinator = memoryCoordinator();
    let ends = 0;
    const handler = { onEvents: () => {}, onEnd: () => ends++ };
    expect(() => coordinator.watch({ key: '', startRevision: 1n }, handler)).toThrow('key is empty');
    await coordinator.close();
    expect(ends).toBe(0);
  });

  test('closing leaves the store and its leases, and no work for a watch that was left open', async () => {
    const clock = new VirtualClock();
    const first = memoryCoordinator({ clock });
    const second = memoryCoordinator({ store: first.store });
    let events = 0;
    first.watch({ ...ALL, startRevision: 1n }, { onEvents: () => events++, onEnd: () => {} });
    await first.grant({ lease: 1n, ttlMs: 5_000 });
    await put(first, 'k/a', 1n);
    expect(events).toBe(1);
    await first.close();
    await put(second, 'k/b');
    await clock.advance(4_999);
    expect(await second.range(ALL)).toMatchObject({ count: 2 });
    await clock.advance(1);
    expect(await second.range(ALL)).toMatchObject({ kvs: [{ key: 'k/b' }] });
    expect([events, clock.pendingTimers]).toEqual([1, 0]);
  });

  test('does not keep the process alive, with a lease and a watch open', async () => {
    const script = `
      import { memoryCoordinator } from ${JSON.stringify(new URL('memory-coordinator.ts', import.meta.url).href)};
      const coordinator = memoryCoordinator();
      await coordinator.grant({ lease: 1n, ttlMs: 3_600_000 });
      coordinator.watch({ key: 'a', startRevision: 1n }, { onEvents() {}, onEnd() {} });
      process.stdout.write('reached the end');`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--conditions=@lockkeeper/source', '--import', 'tsx', '--input-type=module', '--eval', script],
      { timeout: 20_000 },
    );
    expect(stdout).toBe('reached the end');
  });
});

/** Takes the place of the test runner's own listeners, which would fail the run. */
function catchUncaught() {
  const others = process.listeners('uncaughtException');
  const messages: string[] = [];
  const listener = (error: Error) => void messages.push(error.message);
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', listener);
  return {
    messages,
    async [Symbol.asyncDispose]() {
      process.off('uncaughtException', listener);
      for (const other of others) process.on('uncaughtException', other);
    },
  };
}
