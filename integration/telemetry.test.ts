import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { rm } from 'node:fs/promises';
import {
  type Coordinator,
  connect,
  etcdCoordinator,
  type Keeper,
  LockkeeperError,
  type TelemetryEvents,
} from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { FencingToken } from '@lockkeeper/fencing';
import {
  CertificateAuthority,
  CertificateFolder,
  FaultyCoordinator,
  isEnding,
  startWorker,
  waitUntil,
} from '@lockkeeper/testkit';
import { describe, expect, onTestFinished, test } from 'vitest';
import { failure } from './coordinator/support.ts';

type Name = keyof TelemetryEvents;
type Shapes = { readonly [N in Name]: { readonly [Field in keyof Required<TelemetryEvents[N]>]: unknown } };

const ms = expect.toSatisfy((value: unknown) => typeof value === 'number' && value >= 0, 'milliseconds');
const session = expect.stringMatching(/^[0-9a-f]{1,16}$/);
const acquisition = expect.stringMatching(/^[\w-]{22}$/);
const token = expect.any(FencingToken);
const optional = (expected: unknown) => expect.toBeOneOf([undefined, expected]);

/** What every event consists of, to the field: this would not compile if one were missing. */
const SHAPES: Shapes = {
  'lockkeeper:session:opened': { session, ttlMs: ms, lineage: expect.any(String) },
  'lockkeeper:session:renewed': { session, roundTripMs: ms, lagMs: ms, remainingMs: ms },
  'lockkeeper:session:renewal-failed': { session, error: expect.any(Error), remainingMs: ms },
  'lockkeeper:session:suspect': {
    session,
    doubt: expect.stringMatching(/^(renewal|clock)$/),
    remainingMs: ms,
  },
  'lockkeeper:session:recovered': { session, remainingMs: ms },
  'lockkeeper:session:lost': { session, cause: expect.any(String), unconfirmedForMs: ms },
  'lockkeeper:lock:queued': { name: 'x', acquisition, behind: optional(expect.any(String)) },
  'lockkeeper:lock:granted': { name: 'x', token, waitedMs: ms },
  'lockkeeper:lock:gave-up': {
    name: 'x',
    acquisition: optional(acquisition),
    error: optional(expect.any(Error)),
  },
  'lockkeeper:lock:lost': { name: 'x', token, cause: expect.any(String), heldMs: ms },
  'lockkeeper:lock:released': {
    name: 'x',
    token,
    outcome: expect.stringMatching(/^(released|already-lost|unknown)$/),
    sealed: optional(expect.any(Boolean)),
    heldMs: ms,
  },
  'lockkeeper:process:stalled': { session, stalledMs: ms },
  'lockkeeper:credentials:unusable': { error: expect.any(LockkeeperError) },
  'lockkeeper:history:regressed': { seen: expect.any(BigInt), found: expect.any(BigInt) },
};

/** Everything that was published while it listens, in order. */
class Listener implements Disposable {
  readonly heard: { readonly name: Name; readonly event: Record<string, unknown> }[] = [];
  readonly #listen = (event: unknown, name: string | symbol) => {
    this.heard.push({ name: name as Name, event: event as Record<string, unknown> });
  };

  constructor() {
    for (const name of Object.keys(SHAPES)) subscribe(name, this.#listen);
  }

  /** The short names since the last call, without the channels that the test is not about. */
  names(...leftOut: readonly string[]): string[] {
    const names = this.heard.splice(0).map(({ name, event }) => {
      expect(event).toStrictEqual(SHAPES[name]);
      return name.replace('lockkeeper:', '');
    });
    return names.filter((name) => !leftOut.includes(name));
  }

  last(name: Name): Record<string, unknown> | undefined {
    return this.heard.findLast((heard) => heard.name === name)?.event;
  }

  [Symbol.dispose](): void {
    for (const name of Object.keys(SHAPES)) unsubscribe(name, this.#listen);
  }
}

async function world() {
  const clock = new VirtualClock();
  const store = memoryStore({ clock });
  const connection = new FaultyCoordinator(memoryCoordinator({ store }));
  const listener = new Listener();
  const keeper = await connect({ coordinator: connection, namespace: 'n', ttlMs: 9_000 });
  onTestFinished(async () => {
    listener[Symbol.dispose]();
    await keeper.close();
  });
  const client = (coordinator: Coordinator = memoryCoordinator({ store })): Promise<Keeper> =>
    connect({ coordinator, namespace: 'n', ttlMs: 60_000 });
  return { clock, store, connection, listener, keeper, client };
}

describe('events', () => {
  test('of a lock that is taken, renewed and given back, and of the end', async () => {
    const { clock, listener, keeper } = await world();
    expect(listener.names()).toEqual([]);
    const hold = await keeper.lock('x').acquire();
    const id = (await keeper.health()).session?.id;
    expect(listener.last('lockkeeper:session:opened')).toEqual({
      session: id,
      ttlMs: 9_000,
      lineage: hold.token.lineage,
    });
    expect(listener.last('lockkeeper:lock:granted')).toMatchObject({ token: hold.token, waitedMs: 0 });
    expect(listener.names()).toEqual(['session:opened', 'lock:granted']);
    await clock.advance(3_000);
    expect(listener.last('lockkeeper:session:renewed')).toMatchObject({ session: id, lagMs: 0 });
    expect(listener.names()).toEqual(['session:renewed']);
    await hold.release();
    expect(listener.last('lockkeeper:lock:released')).toMatchObject({ outcome: 'released', heldMs: 3_000 });
    expect(listener.names()).toEqual(['lock:released']);
    await keeper.close();
    expect(listener.last('lockkeeper:session:lost')).toMatchObject({ session: id, cause: 'closed' });
    expect(listener.names()).toEqual(['session:lost']);
  });

  test('of waiting: in line, granted after a while, and every way to give up', async () => {
    const { clock, listener, keeper, client } = await world();
    await using holder = await client();
    const held = await holder.lock('x').acquire();
    const lease = BigInt(`0x${(await holder.health()).session?.id}`);
    const key = `n/lock/x/${lease.toString(16)}`;
    listener.names();

    const waiting = keeper.lock('x').acquire();
    await clock.advance(2_000);
    expect(listener.last('lockkeeper:lock:queued')).toMatchObject({ behind: key });
    expect(listener.names('session:renewed')).toEqual(['session:opened', 'lock:queued']);
    await held.release();
    await clock.advance(0);
    const next = await waiting;
    expect(listener.last('lockkeeper:lock:granted')).toMatchObject({ waitedMs: 2_000 });
    // Two keepers: the next one may see the key go before the other has the reply to its release.
    expect(listener.names('session:renewed').sort()).toEqual(['lock:granted', 'lock:released']);

    const late = failure(holder.lock('x').acquire({ waitTimeoutMs: 1_000 }));
    await clock.advance(1_000);
    const { error } = await late;
    expect(listener.last('lockkeeper:lock:gave-up')?.['error']).toBe(error);
    expect(listener.names('session:renewed')).toEqual(['lock:queued', 'lock:gave-up']);

    expect((await holder.lock('x').tryAcquire()).holder).toBeDefined();
    expect(listener.last('lockkeeper:lock:gave-up')).toMatchObject({ acquisition, error: undefined });
    expect(listener.names()).toEqual(['lock:gave-up']);

    const reason = new Error('changed my mind');
    await failure(holder.lock('x').acquire({ signal: AbortSignal.abort(reason) }));
    expect(listener.last('lockkeeper:lock:gave-up')).toEqual({
      name: 'x',
      acquisition: undefined,
      error: reason,
    });
    expect(listener.names()).toEqual(['lock:gave-up']);
    await next.release();
  });

  test('of a session that is cut off: overdue, back again, then lost with its holds', async () => {
    const { clock, connection, listener, keeper } = await world();
    const hold = await keeper.lock('x').acquire();
    listener.names();
    connection.goSilent();
    await clock.advance(3_000);
    expect(listener.last('lockkeeper:session:suspect')).toMatchObject({ doubt: 'renewal' });
    expect(listener.last('lockkeeper:session:renewal-failed')?.['error']).toMatchObject({
      code: 'unreachable',
    });
    expect(new Set(listener.names())).toEqual(new Set(['session:renewal-failed', 'session:suspect']));
    connection.heal();
    await clock.advance(2_000);
    expect(listener.names('session:renewal-failed')).toEqual(['session:recovered', 'session:renewed']);

    connection.goSilent();
    await clock.advance(9_000);
    expect(listener.last('lockkeeper:session:lost')).toMatchObject({ cause: 'unconfirmed' });
    expect(listener.last('lockkeeper:lock:lost')).toMatchObject({ token: hold.token, cause: 'unconfirmed' });
    expect(listener.names('session:renewal-failed', 'session:renewed')).toEqual([
      'session:suspect',
      'session:lost',
      'lock:lost',
    ]);
    expect(await hold.release()).toMatchObject({ outcome: 'already-lost' });
    expect(listener.last('lockkeeper:lock:released')).toMatchObject({ outcome: 'already-lost' });
    const refused = failure(keeper.lock('x').acquire());
    await clock.advance(9_000);
    await refused;
    expect(listener.names()).toEqual(['lock:released', 'lock:gave-up']);
  });

  test('of a release without an answer, of foreign hands, of a clock that jumps', async () => {
    const { clock, connection, listener, keeper, client } = await world();
    const first = await keeper.lock('x').acquire();
    void connection.holdNextBack(isEnding);
    connection.goSilent();
    const releasing = first.release();
    await clock.advance(5_000);
    await releasing;
    expect(listener.last('lockkeeper:lock:released')).toMatchObject({ outcome: 'unknown' });
    connection.heal();
    await clock.advance(10_000);
    const second = await keeper.lock('x').acquire();
    await clock.advance(300);
    listener.names();

    await using operator = await client();
    const span = { key: 'n/lock/x/', rangeEnd: 'n/lock/x0' };
    await operator.coordinator.txn({ compare: [], success: [{ op: 'delete', ...span }], failure: [] });
    await clock.advance(0);
    expect(listener.last('lockkeeper:lock:lost')).toMatchObject({
      cause: 'key-deleted',
      token: second.token,
    });
    expect(listener.names()).toEqual(['session:renewed', 'lock:lost']);

    const third = await keeper.lock('x').acquire();
    listener.names();
    clock.setWallTime(clock.wallTime() + 60_000);
    expect(third.standing).toBe('suspect');
    expect(listener.last('lockkeeper:session:suspect')).toMatchObject({ doubt: 'clock' });
    await clock.advance(0);
    expect(listener.names()).toEqual(['session:suspect', 'session:recovered', 'session:renewed']);
  });

  test('of a history that went back', async () => {
    const { clock, connection, listener, keeper } = await world();
    await keeper.lock('x').acquire();
    for (let i = 0; i < 3; i++) await (await keeper.lock('y').acquire()).release();
    const seen = (await keeper.coordinator.range({ key: 'n/lineage' })).revision;
    listener.heard.splice(0);
    connection.reconnectTo(memoryCoordinator({ store: memoryStore({ clock }) }));
    await keeper.coordinator.range({ key: 'n/lineage' });
    expect(listener.last('lockkeeper:history:regressed')).toEqual({ seen, found: 1n });
    expect(listener.last('lockkeeper:session:lost')).toMatchObject({ cause: 'history-regressed' });
    const names = new Set(listener.names());
    for (const name of ['history:regressed', 'session:lost', 'lock:lost']) expect(names).toContain(name);
  });

  test('of an event loop that stands still', async () => {
    using listener = new Listener();
    await using keeper = await connect({ coordinator: memoryCoordinator(), ttlMs: 3_000 });
    await keeper.lock('x').acquire();
    const end = performance.now() + 1_600;
    while (performance.now() < end);
    await waitUntil('told', () => listener.last('lockkeeper:process:stalled') !== undefined);
    expect(listener.last('lockkeeper:process:stalled')?.['stalledMs']).toBeGreaterThan(500);
    expect(listener.names()).toContain('process:stalled');
  });

  test('of certificates that cannot be read again', async () => {
    await using folder = new CertificateFolder();
    const { certificate } = await CertificateAuthority.create(folder.path, 'ours');
    const rootCertificateFile = await folder.put('root.pem', certificate);
    using listener = new Listener();
    await using coordinator = etcdCoordinator({
      hosts: 'https://127.0.0.1:1',
      credentials: { rootCertificateFile },
    });
    await rm(rootCertificateFile);
    await failure(coordinator.range({ key: 'x' }));
    expect(listener.last('lockkeeper:credentials:unusable')?.['error']).toMatchObject({
      code: 'invalid-option',
    });
    expect(listener.names()).toContain('credentials:unusable');
  });
});

test('a subscriber that throws costs no lock; its error is an uncaught exception of the process', async () => {
  const file = new URL('./support/throwing-subscriber-worker.ts', import.meta.url);
  await using worker = await startWorker(file);
  const { uncaught, names, ...rest } = (await worker.next('done')) as unknown as {
    uncaught: string[];
    names: string[];
  };
  expect(rest).toMatchObject({
    standing: ['held', 'held', 'lost'],
    release: 'released',
    next: 'held',
    cause: 'key-deleted',
  });
  // Every single one, and nothing else.
  expect(uncaught).toEqual(names.map((name) => `thrown at ${name}`));
  expect(new Set(names).size).toBeGreaterThanOrEqual(8);
});
