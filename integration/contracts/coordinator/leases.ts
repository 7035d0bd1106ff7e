import { expect, test } from 'vitest';
import {
  type CoordinatorSuite,
  get,
  nested,
  put,
  randomLease,
  rejection,
  remove,
  run,
  startWatch,
} from './suite.ts';

/** A lease of the shortest TTL that every implementation grants. */
const SHORT_TTL_MS = 2_000;
/** Of a lease that expires, or is renewed every second, and not earlier in a process that stands still for a while. */
const EXPIRING_TTL_MS = 4_000;
/** etcd deletes the keys of an expired lease only after its own rounds, of half a second. */
const EXPIRY_SLACK_MS = 2_000;

/** How leases begin, take keys along, and end. */
export function leases(suite: CoordinatorSuite): void {
  const { all, commit, connect, grantLease, keysLeft, storeRevision, under } = suite;

  test('whole seconds are granted, and no less than the floor', async () => {
    const granted = async (ttlMs: number) =>
      (await suite.coordinator.grant({ lease: randomLease(), ttlMs })).ttlMs;
    expect(await granted(1)).toBe(SHORT_TTL_MS);
    expect(await granted(2_000)).toBe(2_000);
    expect(await granted(2_001)).toBe(3_000);
    expect(await granted(60_000)).toBe(60_000);
  });

  test('the largest id works; a second grant of one id is refused', async () => {
    const lease = 2n ** 63n - 1n;
    await suite.coordinator.grant({ lease, ttlMs: 60_000 });
    await commit(put(under('a'), '', lease));
    expect((await suite.coordinator.range({ key: under('a') })).kvs).toMatchObject([{ lease }]);
    expect(await rejection(suite.coordinator.grant({ lease, ttlMs: 60_000 }))).toMatchObject({
      code: 'lease-exists',
      outcome: 'rejected',
    });
    await suite.coordinator.revoke(lease);
    expect(await keysLeft()).toEqual([]);
  });

  test('a lease that is not there: renew says 0, revoke and put are refused, and nothing is applied', async () => {
    const lease = randomLease();
    const unknown = { code: 'lease-not-found', outcome: 'rejected' };
    expect(await suite.coordinator.renew(lease)).toEqual({ ttlMs: 0 });
    expect(await rejection(suite.coordinator.revoke(lease))).toMatchObject(unknown);
    expect(
      await rejection(commit(put(under('a')), nested([put(under('b'), '', lease)]), get(under('c')))),
    ).toMatchObject(unknown);
    expect(await keysLeft()).toEqual([]);
    expect(await run(suite.coordinator, [], [put(under('a'))], [put(under('b'), '', lease)])).toMatchObject({
      succeeded: true,
    });
  });

  test('revoking deletes all its keys in one revision, told in key order', async () => {
    const lease = await grantLease();
    for (const key of ['c', 'a', 'b']) await commit(put(under(key), '', lease));
    const { revision } = await commit(put(under('other')));
    const seen = await startWatch(suite.coordinator, all(), revision + 1n);
    await suite.coordinator.revoke(lease);
    expect(await seen.next(3)).toEqual(
      ['a', 'b', 'c'].map((key) => ({ type: 'delete', key: under(key), modRevision: revision + 1n })),
    );
    expect(seen.calls).toHaveLength(1);
    expect(await storeRevision()).toBe(revision + 1n);
    expect(await keysLeft()).toEqual([under('other')]);
  });

  test('a put moves a key to its own lease, or to none; a delete takes it off', async () => {
    const [first, second] = [await grantLease(), await grantLease()];
    await commit(...['moved', 'freed', 'remade'].map((key) => put(under(key), '', first)));
    await commit(put(under('moved'), '', second), put(under('freed')), nested([remove(under('remade'))]));
    await commit(put(under('remade')));
    const { revision } = await suite.coordinator.range(all());
    await suite.coordinator.revoke(first);
    expect(await storeRevision()).toBe(revision);
    expect((await suite.coordinator.range(all())).kvs.map(({ key, lease }) => [key, lease])).toEqual([
      [under('freed'), 0n],
      [under('moved'), second],
      [under('remade'), 0n],
    ]);
    await suite.coordinator.revoke(second);
    expect(await keysLeft()).toEqual(['freed', 'remade'].map(under));
  });

  test('renewing gives a full TTL again; without it the lease expires, its keys with it', async () => {
    const [kept, left] = [await grantLease(EXPIRING_TTL_MS), await grantLease(EXPIRING_TTL_MS)];
    const { revision } = await commit(
      ...['b', 'a'].map((key) => put(under(key), '', left)),
      put(under('kept'), '', kept),
    );
    const seen = await startWatch(suite.coordinator, all(), revision + 1n);
    for (let waited = 0; waited < EXPIRING_TTL_MS + EXPIRY_SLACK_MS; waited += 1_000) {
      await suite.world.passTime(1_000);
      expect(await suite.coordinator.renew(kept)).toEqual({ ttlMs: EXPIRING_TTL_MS });
    }
    expect(await seen.next(2)).toEqual(
      ['a', 'b'].map((key) => ({ type: 'delete', key: under(key), modRevision: revision + 1n })),
    );
    expect(await suite.coordinator.renew(left)).toEqual({ ttlMs: 0 });
    expect(await rejection(suite.coordinator.revoke(left))).toMatchObject({ code: 'lease-not-found' });
    expect(await rejection(commit(put(under('late'), '', left)))).toMatchObject({
      code: 'lease-not-found',
    });
    expect(await keysLeft()).toEqual([under('kept')]);
    await suite.coordinator.revoke(kept);
  });

  test('the time that is left counts down in whole seconds, and says nothing of an unknown lease', async () => {
    const lease = await grantLease(60_000);
    const left = async () => (await suite.coordinator.timeToLive(lease))?.ttlMs ?? Number.NaN;
    const before = await suite.coordinator.timeToLive(lease);
    expect(before).toEqual({ ttlMs: expect.any(Number), grantedTtlMs: 60_000 });
    expect(await left()).toBeGreaterThanOrEqual(50_000);
    expect((await left()) % 1_000).toBe(0);
    await suite.world.passTime(1_100);
    const later = await left();
    expect(later).toBeLessThan(before?.ttlMs ?? Number.NaN);
    await suite.coordinator.renew(lease);
    expect(await left()).toBeGreaterThan(later);

    await suite.coordinator.revoke(lease);
    expect(await suite.coordinator.timeToLive(lease)).toBeUndefined();
    expect(await suite.coordinator.timeToLive(randomLease())).toBeUndefined();
    expect(await rejection(suite.coordinator.timeToLive(lease, { signal: AbortSignal.abort('no') }))).toBe(
      'no',
    );
  });

  test('a lease outlives the client that made it, and ends without it', async () => {
    const mortal = await connect();
    const lease = randomLease();
    await mortal.grant({ lease, ttlMs: EXPIRING_TTL_MS });
    const { revision } = await run(mortal, [], [put(under('orphan'), '', lease)]);
    await mortal.close();
    expect(await keysLeft()).toEqual([under('orphan')]);
    const seen = await startWatch(suite.coordinator, all(), revision + 1n);
    await suite.world.passTime(EXPIRING_TTL_MS + EXPIRY_SLACK_MS);
    expect(await seen.next(1)).toMatchObject([{ type: 'delete', key: under('orphan') }]);
  });
}
