// What becomes of holds, tokens and guards when etcd's data are wiped or restored from a backup (D2, F3).
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Keeper } from '@lockkeeper/core';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { type EtcdServer, startEtcd } from '@lockkeeper/testkit';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Scene {
  readonly etcd: EtcdServer;
  readonly namespace: string;
  readonly keeper: Keeper;
}

async function setTheScene(): Promise<Scene> {
  const etcd = await startEtcd({ version: 'newest', own: true });
  const namespace = randomUUID();
  const keeper = await connect({ hosts: etcd.endpoint, namespace, ttlMs: 20_000 });
  onTestFinished(async () => {
    await keeper.close();
    await etcd.stop();
  });
  return { etcd, namespace, keeper };
}

/** Until etcd serves again: its return takes a moment, and an acquire in that moment fails as unreachable. */
async function acquireSoon(keeper: Keeper, name: string, claims: ReturnType<typeof memoryGuard>[] = []) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await keeper.lock(name).acquire({ waitTimeoutMs: 10_000, claims });
    } catch (error) {
      const { code } = error as { code?: string };
      if (tries === 40 || (code !== 'unreachable' && code !== 'lost-while-waiting')) throw error;
    }
  }
}

describe('etcd comes back', () => {
  it('with a backup: sessions end, and a guard that knows newer tokens stays closed', async () => {
    const { etcd, keeper } = await setTheScene();
    const guard = memoryGuard({ resource: 'account' });
    const bystander = await keeper.lock('bystander').acquire();
    // A lease is not revoked under running work, so whoever loses a hold should let go of it.
    bystander.signal.addEventListener('abort', () => void bystander.release());
    const backup = await etcd.saveSnapshot();
    let newest = 0n;
    for (let turn = 0; turn < 10; turn += 1) {
      const hold = await keeper.lock('account').acquire({ claims: [guard] });
      newest = hold.token.revision;
      await hold.release();
    }

    await etcd.restoreSnapshot(backup);
    const failed = await acquireSoon(keeper, 'account', [guard]).catch((error: unknown) => error);
    // Refused by the guard, whose mark lies ahead of what etcd issues now. Never accepted silently.
    expect(failed).toMatchObject({ code: 'claim-failed', cause: { code: 'stale-token' } });
    expect(bystander.signal.reason).toMatchObject({ code: 'lost', lossCause: 'history-regressed' });
    const unguarded = await acquireSoon(keeper, 'account');
    expect(unguarded.token.lineage).toBe(bystander.token.lineage);
    expect(unguarded.token.revision).toBeLessThan(newest);
  });

  it('with a backup whose revisions were bumped: holds go on and tokens go on rising', async () => {
    const { etcd, keeper } = await setTheScene();
    const guard = memoryGuard({ resource: 'account' });
    const bystander = await keeper.lock('bystander').acquire();
    const backup = await etcd.saveSnapshot();
    const before = await keeper.lock('account').acquire({ claims: [guard] });
    await before.release();

    await etcd.restoreSnapshot(backup, { bumpRevision: 1_000_000 });
    const after = await acquireSoon(keeper, 'account', [guard]);
    expect(after.token.revision).toBeGreaterThan(before.token.revision);
    await expect(guard.run(before.token, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
    expect(await guard.run(after.token, () => 'written')).toBe('written');
    expect(bystander.standing).toBe('held');
  });

  it('with nothing: the lineage is a new one, and guards refuse it until an operator adopts it', async () => {
    const { etcd, keeper, namespace } = await setTheScene();
    const guard = memoryGuard({ resource: 'account' });
    const hold = await keeper.lock('account').acquire({ claims: [guard] });
    hold.signal.addEventListener('abort', () => void hold.release());
    const queue = { key: `${namespace}/lock/account/`, rangeEnd: `${namespace}/lock/account0` };
    const waiter = keeper
      .lock('account')
      .acquire()
      .catch((error: unknown) => error);
    while ((await keeper.coordinator.range(queue)).count < 2) await sleep(10);

    await etcd.restart({ wipe: true });
    expect(await waiter).toMatchObject({ code: 'lost-while-waiting' });
    const next = await acquireSoon(keeper, 'account');
    expect(hold.standing).toBe('lost');
    expect(next.token.lineage).not.toBe(hold.token.lineage);
    await next.release();
    const refused = await acquireSoon(keeper, 'account', [guard]).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'claim-failed', cause: { code: 'foreign-lineage' } });
  });
});
