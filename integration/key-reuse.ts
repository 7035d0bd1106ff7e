import { randomUUID } from 'node:crypto';
import { connect, type Keeper, prefixSpan } from '@lockkeeper/core';
import { startEtcd } from '@lockkeeper/testkit';
import { expect } from 'vitest';

/**
 * Many acquisitions of one name leave as few keys behind as there were contenders at once. A key of its own
 * for each would leave a tombstone, which every read of the queue steps over until etcd compacts.
 */
export async function acquireOverAndOver(acquisitions: number): Promise<void> {
  await using etcd = await startEtcd({ own: true });
  const namespace = randomUUID();
  const connectOne = () => connect({ hosts: etcd.endpoint, namespace });
  await using first = await connectOne();
  await using second = await connectOne();
  const sessions = [first, second];
  // The second contender of a process needs a slot of its own.
  const slots = 2;
  await contendOnce(sessions, slots);

  let newest = 0n;
  for (let done = 0; done < acquisitions; done += 1) {
    const hold = await (sessions[done % sessions.length] ?? first).lock('hot').acquire();
    expect(hold.token.revision).toBeGreaterThan(newest);
    newest = hold.token.revision;
    await hold.release();
  }
  await contendOnce(sessions, slots);

  // In turns, so that whatever else the machine does befalls both. With a key for each acquisition the one took about
  // 7 times as long as the other after 10,000; noise stays below 2.
  const [hot, fresh]: [number[], number[]] = [[], []];
  for (let turn = 0; turn < 1_000; turn += 1) {
    hot.push(await durationOf(first, 'hot'));
    fresh.push(await durationOf(first, 'fresh'));
  }
  expect(median(hot) / median(fresh)).toBeLessThan(2);

  const keys = await keysEver(first, `${namespace}/lock/hot/`);
  expect(keys.size).toBe(sessions.length * slots);
}

/** How long an acquire takes that nobody is in the way of. */
async function durationOf(keeper: Keeper, name: string): Promise<number> {
  const begun = performance.now();
  const hold = await keeper.lock(name).acquire();
  const took = performance.now() - begun;
  await hold.release();
  return took;
}

/** All sessions at once, so often that each needs all its slots. */
async function contendOnce(sessions: readonly Keeper[], slots: number): Promise<void> {
  const turns = sessions.flatMap((keeper) =>
    Array.from({ length: slots }, () => keeper.lock('hot').using({}, () => undefined)),
  );
  await Promise.all(turns);
}

/** Every key that the prefix ever had, from a replay of its whole history; leaves one of its own there. */
async function keysEver(keeper: Keeper, prefix: string): Promise<Set<string>> {
  const { coordinator } = keeper;
  const marker = `${prefix}end-of-replay`;
  const put = await coordinator.txn({
    compare: [],
    success: [{ op: 'put', key: marker, value: '' }],
    failure: [],
  });
  const keys = new Set<string>();
  await new Promise<void>((resolve, reject) => {
    const watch = coordinator.watch(
      { ...prefixSpan(prefix), startRevision: 1n },
      {
        onEvents: (events) => {
          for (const event of events) {
            const [key, revision] =
              event.type === 'put' ? [event.kv.key, event.kv.modRevision] : [event.key, event.modRevision];
            if (revision < put.revision) keys.add(key);
            else resolve(watch.close());
          }
        },
        onEnd: reject,
      },
    );
  });
  return keys;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
