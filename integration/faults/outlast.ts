import { randomUUID } from 'node:crypto';
import { connect, type Hold, type Keeper, LockkeeperError } from '@lockkeeper/core';
import { waitUntil } from '@lockkeeper/testkit';
import { expect } from 'vitest';
import { ownTime } from '../support/own-time.ts';
import { LossLog } from './support.ts';

/** A time when no client is served, and what became of etcd's data in it. */
export interface Outage {
  readonly hosts: readonly string[];
  readonly ttlMs: number;
  readonly data: 'kept' | 'wiped';
  /** Resolves when etcd serves again. */
  readonly pass: () => Promise<void>;
}

const LOCKS = 5;
const RECOVERED_WITHIN_MS = 15_000;

interface Tenure {
  readonly hold: Hold;
  readonly grantedAt: number;
  /** At that moment. */
  readonly standing: string;
}

/**
 * After an outage of all of etcd each holder has kept its lock, or has declared it lost before anybody else
 * got it. Everybody who waits gets it in the end, with a higher token or one of another history, and a
 * client that lost everything goes on.
 */
export async function outlast({ hosts, ttlMs, data, pass }: Outage): Promise<{ readonly lost: number }> {
  const namespace = randomUUID();
  await using keeper = await connect({ hosts, namespace, ttlMs });
  await using rival = await connect({ hosts, namespace, ttlMs });
  const losses = new LossLog();
  const names = Array.from({ length: LOCKS }, (_, index) => `lock-${index}`);
  const holds = await Promise.all(names.map(async (name) => losses.watch(await keeper.lock(name).acquire())));
  const giveUp = new AbortController();
  const rivals = holds.map((hold) => acquireInTheEnd(rival, hold, giveUp.signal));
  for (const waiting of rivals) waiting.catch(() => {});
  try {
    const struckAt = ownTime();
    await pass();
    const servedAt = ownTime();

    const releasedAt = new Map<Hold, number>();
    await Promise.all(
      holds.map(async (hold) => {
        await waitUntil('the holder knows where it stands', () => knows(hold, struckAt + ttlMs), {
          timeoutMs: ttlMs + 5_000,
        });
        if (hold.standing === 'lost') return;
        releasedAt.set(hold, ownTime());
        await hold.release();
      }),
    );
    const tenures = await Promise.all(rivals);
    for (const [index, { hold: next, grantedAt }] of tenures.entries()) {
      const hold = holds[index] as Hold;
      expect(grantedAt - servedAt).toBeLessThan(ttlMs + RECOVERED_WITHIN_MS);
      expect(next.token.lineage === hold.token.lineage).toBe(data === 'kept');
      if (data === 'wiped') continue;
      expect(next.token.revision).toBeGreaterThan(hold.token.revision);
      const endedAt = losses.declaredAt(hold) ?? releasedAt.get(hold);
      expect(endedAt, `${hold.name} ended`).toBeDefined();
      expect(grantedAt, `${hold.name} granted`).toBeGreaterThanOrEqual(endedAt as number);
    }
    expect(new Set(tenures.map(({ standing }) => standing))).toEqual(new Set(['held']));
    const again = await keeper.lock('again').acquire({ waitTimeoutMs: RECOVERED_WITHIN_MS });
    expect(again.standing).toBe('held');
    return { lost: holds.filter((hold) => losses.declaredAt(hold) !== undefined).length };
  } finally {
    giveUp.abort('the test is over');
  }
}

/** A hold that lasted through the outage knows so by a renewal, which counts from after it. */
function knows(hold: Hold, notBefore: number): boolean {
  return hold.standing !== 'suspect' && (hold.standing === 'lost' || ownTime() > notBefore);
}

/** Gets the lock of `before`. */
async function acquireInTheEnd(keeper: Keeper, before: Hold, signal: AbortSignal): Promise<Tenure> {
  for (;;) {
    try {
      const hold = await keeper.lock(before.name).acquire({ signal });
      // A look, by which also a process that stood still, and has not come to its timers yet, tells of a loss.
      void before.standing;
      return { hold, grantedAt: ownTime(), standing: hold.standing };
    } catch (error) {
      signal.throwIfAborted();
      const passes = error instanceof LockkeeperError && TRANSIENT.has(error.code);
      if (!passes) throw error;
    }
  }
}

const TRANSIENT: ReadonlySet<string> = new Set(['lost-while-waiting', 'unreachable']);
