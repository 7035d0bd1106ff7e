import { randomUUID } from 'node:crypto';
import { connect, type Term } from '@lockkeeper/core';
import { startEtcd, waitUntil } from '@lockkeeper/testkit';
import { expect } from 'vitest';
import { ownTime } from '../support/own-time.ts';

const TTL_MS = 2_000;

/**
 * E2: two candidates through an outage of etcd. There is never more than one loop at work, there is a leader soon
 * after etcd is back, and no loop is left behind.
 */
export async function leadThrough(outageMs: number, data: 'kept' | 'wiped'): Promise<void> {
  await using etcd = await startEtcd({ own: true });
  const namespace = randomUUID();
  let atWork = 0;
  let most = 0;
  const terms: Term[] = [];
  const stop = new AbortController();
  const keepers = await Promise.all(
    [1, 2].map(() => connect({ hosts: etcd.endpoint, namespace, ttlMs: TTL_MS })),
  );
  const candidates = keepers.map(async (keeper) => {
    for await (const term of keeper.election('x').terms({ signal: stop.signal })) {
      atWork += 1;
      terms.push(term);
      // A loop that has not been told yet, in a process that stood still, is told at a look.
      most = Math.max(most, terms.filter(({ standing }) => standing !== 'lost').length);
      const { signal } = term;
      if (!signal.aborted)
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      atWork -= 1;
    }
  });
  try {
    await waitUntil('somebody leads', () => atWork === 1);
    await etcd.restart({ forMs: outageMs, wipe: data === 'wiped' });
    const backAt = ownTime();
    const lineage = await keepers[0]?.lineage();
    await waitUntil(
      'somebody leads in the history that etcd is in',
      () => atWork === 1 && terms.at(-1)?.token.lineage === lineage,
    );
    expect(ownTime() - backAt).toBeLessThan(TTL_MS + 5_000);
    expect(most).toBe(1);
    const tokens = terms.map(({ token }) => token);
    for (const [index, term] of tokens.entries()) {
      const before = tokens[index - 1];
      if (before?.lineage === term.lineage) expect(term.revision).toBeGreaterThan(before.revision);
    }
  } finally {
    stop.abort('the test is over');
    await Promise.all(candidates);
    await Promise.all(keepers.map((keeper) => keeper.close()));
  }
  expect(atWork).toBe(0);
}
