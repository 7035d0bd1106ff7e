import { type Coordinator, connect, LockkeeperError, prefixSpan, type WatchEvent } from '@lockkeeper/core';
import { memoryCoordinator, VirtualClock } from '@lockkeeper/core/memory';
import { expect, test } from 'vitest';
import { deferred } from './deferred.ts';
import { FaultyCoordinator, isEnqueue } from './faulty-coordinator.ts';

function start() {
  const clock = new VirtualClock();
  const connection = new FaultyCoordinator(memoryCoordinator({ clock }));
  return { clock, connection };
}

const put = (coordinator: Coordinator, key: string, options?: { timeoutMs?: number; signal?: AbortSignal }) =>
  coordinator.txn({ compare: [], success: [{ op: 'put', key, value: '' }], failure: [] }, options);
const count = async (coordinator: Coordinator, key: string) => (await coordinator.range({ key })).count;

test('afterGrant: the lease is there while its reply waits, and the caller keeps to its own limit', async () => {
  const { clock, connection } = start();
  const reached = deferred<bigint>();
  using fault = connection.at('afterGrant', ({ request }) => {
    reached.resolve(request.lease);
    return new Promise(() => {});
  });
  const granting = connection.grant({ lease: 7n, ttlMs: 60_000 }, { timeoutMs: 100 }).catch((error) => error);
  expect(await reached.promise).toBe(7n);
  await clock.advance(100);
  expect(await granting).toMatchObject({ code: 'unreachable', outcome: 'unknown' });
  fault.restore();
  expect(await connection.renew(7n)).toEqual({ ttlMs: 60_000 });
  expect(clock.pendingTimers).toBe(1);
});

test('afterPut: what was put stands although the caller is told of an error; a transaction that puts nothing passes', async () => {
  const { connection } = start();
  const lost = new LockkeeperError('unreachable', 'lost');
  using _ = connection.at('afterPut', () => {
    throw lost;
  });
  await expect(put(connection, 'a')).rejects.toBe(lost);
  expect(await count(connection, 'a')).toBe(1);
  const skipped = {
    compare: [{ key: 'a', target: 'version', is: '=', to: 0n }],
    success: [{ op: 'put', key: 'a', value: '' }],
    failure: [{ op: 'range', key: 'a' }],
  } as const;
  expect(await connection.txn(skipped)).toMatchObject({ succeeded: false });
  const nested = {
    compare: [],
    success: [{ op: 'txn', ...skipped, failure: skipped.success }],
    failure: [],
  } as const;
  await expect(connection.txn(nested)).rejects.toBe(lost);
});

test('beforeSend: nothing is carried out where it throws, and late where it waits', async () => {
  const { clock, connection } = start();
  const refused = new Error('not sent');
  const refusing = connection.at('beforeSend', () => {
    throw refused;
  });
  await expect(put(connection, 'a')).rejects.toBe(refused);
  refusing.restore();
  expect(await count(connection, 'a')).toBe(0);

  const gate = deferred<void>();
  using _ = connection.at('beforeSend', ({ txn }) => txn && gate.promise);
  const abort = new AbortController();
  const putting = put(connection, 'a', { signal: abort.signal }).catch((error) => error);
  await clock.advance(0);
  abort.abort('enough');
  expect(await putting).toBe('enough');
  gate.resolve();
  await clock.advance(0);
  expect(await count(connection, 'a')).toBe(1);
});

test('beforeReply: sees every call, in the order of their replies', async () => {
  const { connection } = start();
  const verbs: string[] = [];
  await using keeper = await connect({ coordinator: connection });
  using _ = connection.at('beforeReply', ({ verb }) => verbs.push(verb));
  await keeper.lock('x').acquire();
  expect(verbs).toEqual(['range', 'grant', 'txn']);
});

test('onWatch: events wait in order, and go on when the fault is restored', async () => {
  const { clock, connection } = start();
  const told: string[] = [];
  const ends: Error[] = [];
  const span = prefixSpan('k/');
  using watch = connection.watch(
    { ...span, startRevision: 1n },
    {
      onEvents: (events) => told.push(...events.map(keyOf)),
      onEnd: (error) => ends.push(error),
    },
  );
  const gate = deferred<void>();
  const holding = connection.at('onWatch', () => gate.promise);
  await put(connection, 'k/1');
  await clock.advance(0);
  holding.restore();
  await put(connection, 'k/2');
  await clock.advance(0);
  expect(told).toEqual([]);
  gate.resolve();
  await clock.advance(0);
  expect(told).toEqual(['k/1', 'k/2']);

  const broken = new LockkeeperError('compacted', 'gone');
  connection.at('onWatch', () => {
    throw broken;
  });
  await put(connection, 'k/3');
  await clock.advance(0);
  await put(connection, 'k/4');
  await clock.advance(0);
  expect(told).toEqual(['k/1', 'k/2']);
  expect(ends).toEqual([broken]);
  watch.close();
});

test('a watch that is closed while its events wait hears nothing more', async () => {
  const { clock, connection } = start();
  const told: string[] = [];
  const gate = deferred<void>();
  connection.at('onWatch', () => gate.promise);
  const handler = {
    onEvents: (events: readonly WatchEvent[]) => told.push(...events.map(keyOf)),
    onEnd: () => told.push('end'),
  };
  const watch = connection.watch({ ...prefixSpan('k/'), startRevision: 1n }, handler);
  await put(connection, 'k/1');
  await clock.advance(0);
  watch.close();
  gate.resolve();
  await put(connection, 'k/2');
  await clock.advance(0);
  expect(told).toEqual([]);
});

test('a lock finds out what became of an acquire transaction whose reply was lost', async () => {
  const { clock, connection } = start();
  await using keeper = await connect({ coordinator: connection });
  connection.loseNextReply(isEnqueue);
  const acquiring = keeper.lock('x').acquire();
  await clock.advance(1_000);
  expect((await acquiring).standing).toBe('held');
  expect(connection.sent.filter(isEnqueue)).toHaveLength(2);
});

function keyOf(event: WatchEvent): string {
  return event.type === 'put' ? event.kv.key : event.key;
}
