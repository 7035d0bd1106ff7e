import type { Coordinator, LockkeeperError } from '@lockkeeper/core';
import { expect, test } from 'vitest';
import { type CoordinatorSuite, put, randomLease, rejection, run, startWatch, txnOf } from './suite.ts';

/** What ends a call before its reply, and many at once. */
export function calls(suite: CoordinatorSuite): void {
  const { all, connect, keysLeft, storeRevision, under } = suite;

  test('an aborted signal stops them, with its own reason', async () => {
    const reason = new Error('no longer wanted');
    const signal = AbortSignal.abort(reason);
    expect(await rejection(suite.coordinator.txn(txnOf([put(under('a'))]), { signal }))).toBe(reason);
    expect(await rejection(suite.coordinator.range({ key: under('a') }, { signal }))).toBe(reason);
    expect(
      await rejection(suite.coordinator.grant({ lease: randomLease(), ttlMs: 60_000 }, { signal })),
    ).toBe(reason);
    expect(await keysLeft()).toEqual([]);

    const controller = new AbortController();
    const pending = suite.coordinator.range({ key: under('a') }, { signal: controller.signal });
    controller.abort(reason);
    expect(await rejection(pending)).toBe(reason);
  });

  test('the members are told without asking them: one is current, none is connected after the end', async () => {
    await suite.coordinator.range({ key: under('a') });
    const members = suite.coordinator.endpoints();
    expect(members.filter(({ current }) => current)).toEqual([
      { name: expect.stringMatching(/./), connected: true, current: true },
    ]);
    expect(new Set(members.map(({ name }) => name)).size).toBe(members.length);
    await suite.coordinator.close();
    const after = suite.coordinator.endpoints();
    expect(after.map(({ name }) => name)).toEqual(members.map(({ name }) => name));
    expect(after.filter(({ connected }) => connected)).toEqual([]);
  });

  test('close ends what is pending and what is watched, and refuses what follows', async () => {
    const closing = await connect();
    const seen = await startWatch(closing, all(), 1n + (await storeRevision()));
    const pending = rejection(run(closing, [], [put(under('a'))]));
    const closed = Promise.all([closing.close(), closing.close()]);
    const error = await pending;
    expect(error).toMatchObject({ code: 'closed' });
    await closed;
    expect(await seen.ended).toMatchObject({ code: 'closed' });
    const appliedThoughRejected =
      (error as LockkeeperError).outcome === 'rejected' && (await keysLeft()).includes(under('a'));
    expect(appliedThoughRejected).toBe(false);

    const refused = { code: 'closed', outcome: 'rejected' };
    expect(await rejection(closing.range({ key: under('a') }))).toMatchObject(refused);
    expect(await rejection(run(closing, [], [put(under('b'))]))).toMatchObject(refused);
    expect(await rejection(closing.timeToLive(1n))).toMatchObject(refused);
    const late = await startWatch(closing, all(), 1n);
    expect(await late.ended).toMatchObject({ code: 'closed' });
    expect(await keysLeft()).not.toContain(under('b'));
  });

  test('50 at once on one key are put in one order, a revision each', async () => {
    const clients = [suite.coordinator, await connect(), await connect()];
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        run(clients[index % 3] as Coordinator, [], [put(under('a'), `${index}`)]),
      ),
    );
    const revisions = replies.map(({ revision }) => revision).sort((a, b) => Number(a - b));
    expect(new Set(revisions).size).toBe(50);
    expect((revisions.at(-1) as bigint) - (revisions[0] as bigint)).toBe(49n);
    expect((await suite.coordinator.range({ key: under('a') })).kvs).toMatchObject([{ version: 50n }]);
  });
}
