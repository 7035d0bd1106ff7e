import { prefixSpan } from '@lockkeeper/core';
import { expect, test } from 'vitest';
import {
  absent,
  type CoordinatorSuite,
  get,
  nested,
  put,
  randomLease,
  remove,
  removeSpan,
  run,
} from './suite.ts';

/** What takes a revision and what does not, and what keys remember of theirs. */
export function revisions(suite: CoordinatorSuite): void {
  const { all, commit, storeRevision, under } = suite;

  test('a transaction that writes takes exactly one, which all its puts share', async () => {
    const before = await storeRevision();
    const { revision } = await commit(put(under('a')), put(under('b')), nested([put(under('c'))]));
    expect(revision).toBe(before + 1n);
    const { kvs, revision: seen } = await suite.coordinator.range(all());
    expect(seen).toBe(revision);
    expect(kvs.map((kv) => [kv.createRevision, kv.modRevision])).toEqual(Array(3).fill([revision, revision]));
  });

  test('what changes nothing takes none: a read, a failed compare, an empty branch, a delete of nothing', async () => {
    const { revision } = await commit(put(under('a')));
    expect((await commit(get(under('a')))).revision).toBe(revision);
    expect((await run(suite.coordinator, [absent(under('a'))], [put(under('a'))])).revision).toBe(revision);
    expect((await commit()).revision).toBe(revision);
    expect((await commit(remove(under('b')), removeSpan(prefixSpan(under('x/'))))).revision).toBe(revision);
    expect(await storeRevision()).toBe(revision);
  });

  test('leases come and go without one, unless keys are deleted with them', async () => {
    const { revision } = await commit(put(under('a')));
    const lease = randomLease();
    expect((await suite.coordinator.grant({ lease, ttlMs: 60_000 })).revision).toBe(revision);
    await suite.coordinator.renew(lease);
    await suite.coordinator.revoke(lease);
    expect(await storeRevision()).toBe(revision);
  });

  test('a key keeps its create revision over puts and counts them, and begins anew after a delete', async () => {
    const first = await commit(put(under('a'), '1'));
    const second = await commit(put(under('a'), '2'));
    expect((await suite.coordinator.range({ key: under('a') })).kvs).toMatchObject([
      { createRevision: first.revision, modRevision: second.revision, version: 2n },
    ]);
    await commit(remove(under('a')));
    const third = await commit(put(under('a'), '3'));
    expect((await suite.coordinator.range({ key: under('a') })).kvs).toMatchObject([
      { createRevision: third.revision, modRevision: third.revision, version: 1n },
    ]);
  });
}
