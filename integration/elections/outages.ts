import { randomUUID } from 'node:crypto';
import { connect } from '@lockkeeper/core';
import { startEtcd, waitUntil } from '@lockkeeper/testkit';
import { expect } from 'vitest';

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
  const terms: { readonly lineage: string; readonly revision: bigint }[] = [];
  const stop = new AbortController();
  const keepers = await Promise.all(
    [1, 2].map(() => connect({ hosts: etcd.endpoint, namespace, ttlMs: TTL_MS })),
  );
  const candidates = keepers.map(async (keeper) => {
    for await (const term of keeper.election('x').terms({ signal: stop.signal })) {
      atWork += 1;
      most = Math.max(most, atWork);
      terms.push(term.token);
      const { signal } = term;
      if (!signal.aborted)
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      atWork -= 1;
    }
  });
  try {
    await waitUntil('somebody leads', () => atWork === 1);
    await etcd.restart({ forMs: outageMs, wipe: data === 'wiped' });
    const backAt = performance.now();
    const lineage = await keepers[0]?.lineage();
    await waitUntil(
      'somebody leads in the history that etcd is in',
      () => atWork === 1 && terms.at(-1)?.lineage === lineage,
    );
    expect(performance.now() - backAt).toBeLessThan(TTL_MS + 5_000);
    expect(most).toBe(1);
    for (const [index, term] of terms.entries()) {
      const before = terms[index - 1];
      if (before?.lineage === term.lineage) expect(term.revision).toBeGreaterThan(before.revision);
    }
  } finally {
    stop.abort('the test is over');
    await Promise.all(candidates);
    await Promise.all(keepers.map((keeper) => keeper.close()));
  }
  expect(atWork).toBe(0);
}
