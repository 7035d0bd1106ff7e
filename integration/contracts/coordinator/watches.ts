import type { WatchHandler } from '@lockkeeper/core';
import { expect, test } from 'vitest';
import { bytes, type CoordinatorSuite, put, remove, run, startWatch } from './suite.ts';

/** What a watch tells, when, and how it ends. */
export function watches(suite: CoordinatorSuite): void {
  const { all, commit, connect, storeRevision, under } = suite;

  test('tell every change of the span from a past revision on, also of other clients, in order', async () => {
    const first = await commit(put(under('a'), '1'));
    const second = await commit(
      put(under('b'), '2'),
      remove(under('a')),
      put(`${suite.prefix.slice(0, -1)}0`),
    );
    const seen = await startWatch(suite.coordinator, all(), first.revision);
    const third = await run(await connect(), [], [put(under('b'), '3')]);
    expect(await seen.next(4)).toMatchObject([
      {
        type: 'put',
        kv: { key: under('a'), value: bytes('1'), modRevision: first.revision, version: 1n },
      },
      { type: 'put', kv: { key: under('b'), value: bytes('2'), modRevision: second.revision } },
      { type: 'delete', key: under('a'), modRevision: second.revision },
      {
        type: 'put',
        kv: {
          key: under('b'),
          createRevision: second.revision,
          modRevision: third.revision,
          version: 2n,
        },
      },
    ]);
    await commit(remove(`${suite.prefix.slice(0, -1)}0`));
  });

  test('start in the future: what happens before is not told', async () => {
    const now = await storeRevision();
    const seen = await startWatch(suite.coordinator, all(), now + 3n);
    for (const key of ['a', 'b', 'c']) await commit(put(under(key)));
    expect(await seen.next(1)).toMatchObject([
      { type: 'put', kv: { key: under('c'), modRevision: now + 3n } },
    ]);
  });

  test('of a single key, see that key alone', async () => {
    const { revision } = await commit(put(under('a')), put(under('aa')), put(under('a\0')));
    const seen = await startWatch(suite.coordinator, { key: under('a') }, revision);
    await commit(remove(under('aa')), remove(under('a\0')));
    await commit(remove(under('a')));
    expect(await seen.next(2)).toMatchObject([
      { type: 'put', kv: { key: under('a') } },
      { type: 'delete', key: under('a') },
    ]);
  });

  test('never cut a revision', async () => {
    const { revision } = await commit(...Array.from({ length: 100 }, (_, index) => put(under(`${index}`))));
    const seen = await startWatch(suite.coordinator, all(), revision);
    for (let round = 0; round < 5; round++) {
      await commit(...Array.from({ length: 100 }, (_, index) => put(under(`${index}`))));
    }
    await seen.next(600);
    for (const call of seen.calls) {
      const sizes = new Map<bigint, number>();
      for (const event of call) {
        const revision = event.type === 'put' ? event.kv.modRevision : event.modRevision;
        sizes.set(revision, (sizes.get(revision) ?? 0) + 1);
      }
      expect([...sizes.values()]).toEqual(Array(sizes.size).fill(100));
    }
  });

  test('never call back within the call that caused it, nor after close', async () => {
    let inside = false;
    const calls: boolean[] = [];
    const handler: WatchHandler = {
      onEvents: () => void calls.push(inside),
      onEnd: () => void calls.push(inside),
    };
    const startRevision = (await commit(put(under('a')))).revision;
    inside = true;
    const watch = suite.coordinator.watch({ ...all(), startRevision }, handler);
    const written = commit(put(under('b')));
    inside = false;
    const other = await startWatch(suite.coordinator, all(), startRevision);
    await written;
    await other.next(2);
    await expect.poll(() => calls.length).toBeGreaterThan(0);
    expect(calls).not.toContain(true);

    watch.close();
    watch.close();
    calls.length = 0;
    await commit(put(under('c')));
    await other.next(1);
    await suite.coordinator.close();
    await other.ended;
    expect(calls).toEqual([]);
  });

  test('closed by the handler, tell nothing more', async () => {
    const { revision } = await commit(put(under('a')));
    let calls = 0;
    const watch = suite.coordinator.watch(
      { ...all(), startRevision: revision },
      {
        onEvents: () => {
          calls++;
          watch.close();
        },
        onEnd: () => void calls++,
      },
    );
    const other = await startWatch(suite.coordinator, all(), revision);
    await expect.poll(() => calls).toBe(1);
    await commit(put(under('b')));
    await other.next(2);
    expect(calls).toBe(1);
  });

  test('end with `compacted` where their history is gone, and only there', async () => {
    const first = await commit(put(under('a'), '1'));
    const running = await startWatch(suite.coordinator, all(), first.revision);
    await running.next(1);
    const second = await commit(put(under('a'), '2'));
    const third = await commit(put(under('a'), '3'));
    await suite.world.compact(second.revision);

    const late = await startWatch(suite.coordinator, all(), first.revision);
    expect(await late.ended).toMatchObject({ code: 'compacted' });
    expect(late.calls).toEqual([]);
    const intime = await startWatch(suite.coordinator, all(), second.revision);
    expect(await intime.next(2)).toMatchObject([
      { kv: { modRevision: second.revision } },
      { kv: { modRevision: third.revision } },
    ]);
    expect(await running.next(2)).toMatchObject([
      { kv: { value: bytes('2') } },
      { kv: { value: bytes('3') } },
    ]);
  });
}
