import { describe, expect, test } from 'vitest';
import type { Clock, TimerOptions } from '../../clock.ts';
import type { Operation, TxnReply, WatchEvent } from '../coordinator.ts';
import { prefixSpan } from '../coordinator.ts';
import { type MemoryStore, memoryStore } from './memory-store.ts';
import { VirtualClock } from './virtual-clock.ts';

// What holds for memory and etcd alike is in the contract suite; this is what only memory can show.

const ALL = prefixSpan('k/');

function put(store: MemoryStore, key: string, lease = 0n): TxnReply {
  return store.txn({ compare: [], success: [{ op: 'put', key, value: '', lease }], failure: [] });
}

function keys(store: MemoryStore): string[] {
  return store.range(ALL).kvs.map(({ key }) => key);
}

/** What a watch is told, a list for each call. */
function record(store: MemoryStore, startRevision = 1n) {
  const told: (readonly WatchEvent[] | Error)[] = [];
  store.watch(
    { ...ALL, startRevision },
    { onEvents: (events) => told.push(events), onEnd: (error) => told.push(error) },
  );
  return told;
}

/** A machine whose timers do not come, as in a stalled event loop, unless told to, and then maybe early. */
class StalledClock implements Clock {
  time = 0;
  readonly timers = new Map<object, { readonly delayMs: number; fire: () => void; readonly ref: boolean }>();

  now(): number {
    return this.time;
  }

  wallTime(): number {
    return this.time;
  }

  random(): number {
    return 0.5;
  }

  setTimer(delayMs: number, fire: () => void, options?: TimerOptions) {
    const cancel = () => void this.timers.delete(timer);
    const timer = { cancel, [Symbol.dispose]: cancel };
    this.timers.set(timer, { delayMs, fire, ref: options?.ref ?? true });
    return timer;
  }

  fireAll(): void {
    const due = [...this.timers.values()];
    this.timers.clear();
    for (const { fire } of due) fire();
  }
}

describe('memory store: expiry', () => {
  test('a lease stands until just before t0 + ttl and is gone at that very moment', async () => {
    const clock = new VirtualClock();
    const store = memoryStore({ clock });
    await clock.advance(250);
    store.grant({ lease: 1n, ttlMs: 5_000 });
    put(store, 'k/a', 1n);
    await clock.advanceTo(5_249);
    expect(keys(store)).toEqual(['k/a']);
    await clock.advanceTo(5_250);
    expect(keys(store)).toEqual([]);
    expect(store.renew(1n)).toEqual({ ttlMs: 0 });
  });

  test('a renewal counts from when it is applied', async () => {
    const clock = new VirtualClock();
    const store = memoryStore({ clock });
    store.grant({ lease: 1n, ttlMs: 5_000 });
    put(store, 'k/a', 1n);
    await clock.advanceTo(4_999);
    expect(store.renew(1n)).toEqual({ ttlMs: 5_000 });
    await clock.advanceTo(9_998);
    expect(keys(store)).toEqual(['k/a']);
    await clock.advanceTo(9_999);
    expect(keys(store)).toEqual([]);
  });

  test('is told by the clock, without anybody looking, each lease in a revision of its own', async () => {
    const clock = new VirtualClock();
    const store = memoryStore({ clock });
    store.grant({ lease: 1n, ttlMs: 3_000 });
    store.grant({ lease: 2n, ttlMs: 2_000 });
    store.grant({ lease: 3n, ttlMs: 3_000 });
    for (const [key, lease] of [
      ['k/c', 1n],
      ['k/a', 1n],
      ['k/b', 2n],
      ['k/d', 3n],
    ] as const)
      put(store, key, lease);
    const told = record(store, 6n);
    await clock.advance(2_000);
    expect(told).toEqual([[{ type: 'delete', key: 'k/b', modRevision: 6n }]]);
    await clock.advance(1_000);
    expect(told.slice(1)).toEqual([
      [
        { type: 'delete', key: 'k/a', modRevision: 7n },
        { type: 'delete', key: 'k/c', modRevision: 7n },
      ],
      [{ type: 'delete', key: 'k/d', modRevision: 8n }],
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  test('a stalled timer shows nobody an expired key, nor lets anybody use the lease', () => {
    for (const use of [
      (store: MemoryStore) => expect(keys(store)).toEqual([]),
      (store: MemoryStore) => expect(store.revision).toBe(3n),
      (store: MemoryStore) => expect(store.renew(1n)).toEqual({ ttlMs: 0 }),
      (store: MemoryStore) => expect(() => store.revoke(1n)).toThrow('lease 1 is not known'),
      (store: MemoryStore) => expect(() => put(store, 'k/b', 1n)).toThrow('lease 1 is not known'),
      (store: MemoryStore) => expect(put(store, 'k/a').revision).toBe(4n),
      (store: MemoryStore) => expect(record(store)).toMatchObject([[{ type: 'put' }, { type: 'delete' }]]),
      (store: MemoryStore) => expect(store.grant({ lease: 1n, ttlMs: 2_000 }).revision).toBe(3n),
    ]) {
      const clock = new StalledClock();
      const store = memoryStore({ clock });
      store.grant({ lease: 1n, ttlMs: 2_000 });
      put(store, 'k/a', 1n);
      clock.time = 2_000;
      use(store);
    }
  });

  test('after a stall, leases end in the order in which they expired', () => {
    const clock = new StalledClock();
    const store = memoryStore({ clock });
    for (const [lease, ttlMs] of [
      [1n, 4_000],
      [2n, 2_000],
      [3n, 3_000],
    ] as const) {
      store.grant({ lease, ttlMs });
      put(store, `k/${lease}`, lease);
    }
    clock.time = 10_000;
    expect(record(store, 5n)).toMatchObject([[{ key: 'k/2' }, { key: 'k/3' }, { key: 'k/1' }]]);
  });

  test('a timer that comes early is set again; it never keeps the process alive', () => {
    const clock = new StalledClock();
    const store = memoryStore({ clock });
    store.grant({ lease: 1n, ttlMs: 2_000 });
    put(store, 'k/a', 1n);
    const told = record(store, 3n);
    expect([...clock.timers.values()]).toMatchObject([{ delayMs: 2_000, ref: false }]);
    clock.time = 1_999.5;
    clock.fireAll();
    expect(told).toEqual([]);
    expect([...clock.timers.values()]).toMatchObject([{ delayMs: 0.5, ref: false }]);
    clock.time = 2_000;
    clock.fireAll();
    expect(told).toMatchObject([[{ type: 'delete', key: 'k/a' }]]);
    expect(clock.timers.size).toBe(0);
  });

  test('many leases share one timer, and the last to go takes it along', async () => {
    const clock = new VirtualClock();
    const store = memoryStore({ clock });
    for (let lease = 1n; lease <= 100n; lease++) store.grant({ lease, ttlMs: 5_000 + Number(lease) });
    expect(clock.pendingTimers).toBe(1);
    for (let lease = 1n; lease <= 100n; lease++) store.revoke(lease);
    expect(clock.pendingTimers).toBe(0);
  });

  test('kept up by renewals, leases set a timer about once a TTL, not once a renewal', async () => {
    const clock = new VirtualClock();
    let set = 0;
    const counting: Clock = {
      now: () => clock.now(),
      wallTime: () => clock.wallTime(),
      random: () => clock.random(),
      setTimer: (delayMs, fire) => {
        set++;
        return clock.setTimer(delayMs, fire);
      },
    };
    const store = memoryStore({ clock: counting });
    store.grant({ lease: 1n, ttlMs: 3_000 });
    for (let renewal = 0; renewal < 300; renewal++) {
      await clock.advance(100);
      store.renew(1n);
    }
    expect(set).toBeLessThan(15);
  });
});

describe('memory store: options and refusals', () => {
  test('minTtlMs is the floor, in whole seconds', () => {
    const store = memoryStore({ clock: new VirtualClock(), minTtlMs: 1 });
    expect(store.grant({ lease: 1n, ttlMs: 1 }).ttlMs).toBe(1_000);
    expect(store.grant({ lease: 2n, ttlMs: 1_000.5 }).ttlMs).toBe(2_000);
    expect(memoryStore({ minTtlMs: 2_500 }).grant({ lease: 1n, ttlMs: 1 }).ttlMs).toBe(3_000);
  });

  test.each([
    ['minTtlMs', { minTtlMs: 0 }],
    ['minTtlMs', { minTtlMs: Number.NaN }],
    ['retainRevisions', { retainRevisions: 0 }],
    ['retainRevisions', { retainRevisions: 1.5 }],
  ])('a wrong %s is refused, by name', (field, options) => {
    expect(() => memoryStore(options)).toThrow(
      expect.objectContaining({ code: 'invalid-option', message: expect.stringContaining(field) }),
    );
  });

  test('a lease needs an id and a TTL that etcd can hold', () => {
    const store = memoryStore({ clock: new VirtualClock() });
    for (const ttlMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => store.grant({ lease: 1n, ttlMs })).toThrow(`ttlMs is ${ttlMs}`);
    }
    for (const lease of [0n, -1n, 2n ** 63n]) {
      expect(() => store.grant({ lease, ttlMs: 5_000 })).toThrow(`lease is ${lease}`);
    }
    expect(store.renew(1n)).toEqual({ ttlMs: 0 });
  });

  test('a watch needs a key and a revision from 1', () => {
    const store = memoryStore();
    const ignore = { onEvents: () => {}, onEnd: () => {} };
    expect(() => store.watch({ key: 'a', startRevision: 0n }, ignore)).toThrow('startRevision is 0');
    expect(() => store.watch({ key: '', startRevision: 1n }, ignore)).toThrow('key is empty');
  });
});

describe('memory store: history', () => {
  test('compacting reaches up to the present, and never back', () => {
    const store = memoryStore();
    for (const key of ['k/a', 'k/b', 'k/c']) put(store, key);
    expect(() => store.compact(5n)).toThrow(new RangeError('compact: revision is 5; the store is at 4'));
    store.compact(3n);
    store.compact(2n);
    expect(record(store, 2n)).toMatchObject([{ code: 'compacted' }]);
    expect(record(store, 3n)).toMatchObject([[{ kv: { key: 'k/b' } }, { kv: { key: 'k/c' } }]]);
  });

  test('of old revisions at least the promised number stays, and not much more', () => {
    const store = memoryStore({ retainRevisions: 100 });
    const running = record(store);
    for (let round = 0; round < 1_000; round++) put(store, 'k/a');
    expect(running).toHaveLength(1_000);
    expect(record(store, store.revision - 99n)[0]).toHaveLength(100);
    expect(record(store, store.revision - 126n)).toMatchObject([{ code: 'compacted' }]);
  });

  test('every reader has a copy of its own', () => {
    const store = memoryStore();
    const [first, second] = [record(store), record(store)];
    const value = new TextEncoder().encode('kept');
    const success: Operation[] = [{ op: 'put', key: 'k/a', value }];
    store.txn({ compare: [], success, failure: [] });
    value.fill(0);
    const spoil = (events: unknown) => {
      const [event] = events as WatchEvent[];
      if (event?.type === 'put') event.kv.value.fill(0);
    };
    spoil(first[0]);
    const text = ({ value: bytes }: { value: Uint8Array }) => new TextDecoder().decode(bytes);
    expect(second[0]).toMatchObject([{ kv: { value: new TextEncoder().encode('kept') } }]);
    expect(record(store)[0]).toMatchObject([{ kv: { value: new TextEncoder().encode('kept') } }]);
    expect(store.range(ALL).kvs.map(text)).toEqual(['kept']);
  });
});
