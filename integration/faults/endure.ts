import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import { waitUntil } from '@lockkeeper/testkit';
import { expect } from 'vitest';
import { ownTime } from '../support/own-time.ts';
import { queueOf, timed } from './support.ts';

/** One fault of one member, and the clients who must not suffer from it. */
export interface Ordeal {
  /** The member that is struck comes first: the clients talk to it. */
  readonly hosts: readonly string[];
  /** Members, or ways to them, that are not struck. */
  readonly healthy: readonly string[];
  /** Strikes, and returns what heals it again. */
  readonly strike: () => Promise<() => unknown>;
  readonly ttlMs: number;
}

/** What everybody can rely on, also while the cluster elects a leader. */
const NO_CALL_TAKES_MS = 10_000;

/**
 * A fault of a single member, longer than a time-to-live, costs no hold: it stays held and nobody else gets
 * it, new locks are granted meanwhile, and a release reaches the one who waits, watches and all.
 */
export async function endure({ hosts, healthy, strike, ttlMs }: Ordeal): Promise<void> {
  const namespace = randomUUID();
  await using keeper = await connect({ hosts, namespace, ttlMs });
  await using waiter = await connect({ hosts, namespace, ttlMs });
  await using observer = await connect({ hosts: healthy, namespace });
  const hold = await keeper.lock('x').acquire();
  const isolated = await connect({ hosts, namespace, ttlMs });
  await using _ = isolated;
  const idle = await isolated.lock('idle').acquire();
  const waiting = timed(() => waiter.lock('x').acquire());
  await waitUntil('queued', async () => (await queueOf(observer.coordinator, namespace, 'x')).length === 2);

  const heal = await strike();
  try {
    const struckAt = performance.now();
    const fresh = await timed(() => keeper.lock('fresh').acquire({ waitTimeoutMs: 30_000 }));
    expect(fresh.error).toBeUndefined();
    expect(fresh.tookMs).toBeLessThan(NO_CALL_TAKES_MS);
    while (performance.now() < struckAt + 1.4 * ttlMs) {
      expect([hold, idle].map(({ signal }) => signal.reason)).toEqual([undefined, undefined]);
      await sleep(100);
    }
    expect(hold.standing).toBe('held');
    expect((await observer.lock('x').tryAcquire()).holder?.createRevision).toBe(hold.token.revision);
    expect((await queueOf(observer.coordinator, namespace, 'x')).length).toBe(2);

    const releasedAt = ownTime();
    expect(await hold.release()).toMatchObject({ outcome: 'released' });
    const { value: next, error } = await waiting;
    expect(error).toBeUndefined();
    expect(ownTime() - releasedAt).toBeLessThan(NO_CALL_TAKES_MS);
    expect(next?.token.revision).toBeGreaterThan(hold.token.revision);
    expect(next?.standing).toBe('held');
  } finally {
    await heal();
  }
  expect(idle.standing).toBe('held');
}
