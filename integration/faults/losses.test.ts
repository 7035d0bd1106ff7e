import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, etcdCoordinator, type Hold, type Keeper, type Operation } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { type EtcdServer, startEtcd, startTcpProxy, waitUntil } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { muteServer } from '../coordinator/support.ts';
import { ownTime } from '../support/own-time.ts';
import { startForgetfulMember } from './fake-member.ts';
import { LossLog, queueOf, timed } from './support.ts';

/** What ends a hold, and what does not. */

/** Virtual time in which things are left to chance, the same chance in every run. */
class ChancyClock extends VirtualClock {
  #state = 1;

  override random(): number {
    this.#state = (this.#state * 48_271) % 0x7fff_ffff;
    return this.#state / 0x7fff_ffff;
  }
}

let etcd: EtcdServer;
beforeAll(async () => {
  etcd = await startEtcd({ version: 'newest', own: true });
});
afterAll(() => etcd.stop());

async function onlyKey(keeper: Keeper, namespace: string, name: string): Promise<string> {
  const [own] = await queueOf(keeper.coordinator, namespace, name);
  return own?.key ?? expect.unreachable(`nobody holds ${name}`);
}

describe('B17: interference with the key of a hold', () => {
  it.each([
    ['deleted', ['del'], 'key-deleted'],
    ['overwritten', ['put'], 'foreign-write'],
  ] as const)('%s: its signal aborts within a second, and only its own', async (_, [verb], lossCause) => {
    const namespace = randomUUID();
    await using keeper = await connect({ hosts: etcd.endpoint, namespace, ttlMs: 30_000 });
    await using rival = await connect({ hosts: etcd.endpoint, namespace });
    const losses = new LossLog();
    const hold = losses.watch(await keeper.lock('x').acquire());
    const untouched = await keeper.lock('y').acquire();
    const waiting = timed(() => rival.lock('x').acquire());
    await waitUntil('queued', async () => (await queueOf(rival.coordinator, namespace, 'x')).length === 2);
    const key = await onlyKey(keeper, namespace, 'x');

    // Below the keeper, as another program would: from its confirmation on the time counts.
    const touch: Operation = verb === 'del' ? { op: 'delete', key } : { op: 'put', key, value: 'not mine' };
    await rival.coordinator.txn({ compare: [], success: [touch], failure: [] });
    const touchedAt = ownTime();
    await waitUntil('told', () => losses.declaredAt(hold) !== undefined, { timeoutMs: 20_000 });
    expect((losses.declaredAt(hold) ?? 0) - touchedAt).toBeLessThan(1_000);
    expect(hold.standing).toBe('lost');
    expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause });
    expect(untouched.standing).toBe('held');

    // What was overwritten is removed by the release, since nobody else will.
    await hold.release();
    const { value: next } = await waiting;
    expect(next?.token.revision).toBeGreaterThan(hold.token.revision);
    expect(await queueOf(rival.coordinator, namespace, 'x')).toHaveLength(1);
  });
});

describe('B11: the end of one lease', () => {
  it('is noticed by those who hold on it and by nobody else', async () => {
    const namespace = randomUUID();
    const keepers = await Promise.all(
      Array.from({ length: 10 }, () => connect({ hosts: etcd.endpoint, namespace, ttlMs: 9_000 })),
    );
    const held = await Promise.all(
      keepers.map((keeper, owner) =>
        Promise.all(Array.from({ length: 10 }, (_, index) => keeper.lock(`${owner}-${index}`).acquire())),
      ),
    );
    const [mine, ...theirs] = held as [Hold[], ...Hold[][]];
    const [own] = await queueOf((keepers[0] as Keeper).coordinator, namespace, '0-0');
    await etcd.ctl(['lease', 'revoke', own?.lease.toString(16) ?? '']);
    await waitUntil('all of its holds are lost', () => mine.every(({ standing }) => standing === 'lost'));
    for (const hold of mine) {
      expect(hold.signal.reason).toMatchObject({ code: 'lost' });
      expect(['revoked', 'key-deleted']).toContain(hold.signal.reason.lossCause);
    }
    // Each of the others renews once more.
    await sleep(3_500);
    for (const hold of theirs.flat()) {
      expect(hold.standing).toBe('held');
      const [key] = await queueOf((keepers[1] as Keeper).coordinator, namespace, hold.name);
      expect(key?.createRevision).toBe(hold.token.revision);
    }
    await Promise.all(keepers.map((keeper) => keeper.close()));
  });
});

describe('a single way to etcd', () => {
  it('B9: reset every 500 ms: a hold that says it is held is held', async () => {
    await using proxy = await startTcpProxy(etcd.endpoint);
    await using truth = etcdCoordinator({ hosts: etcd.endpoint });
    const namespace = randomUUID();
    const keepers = await Promise.all(
      Array.from({ length: 4 }, () => connect({ hosts: proxy.url, namespace, ttlMs: 5_000 })),
    );
    const holds = await Promise.all(
      keepers.flatMap((keeper, owner) =>
        Array.from({ length: 5 }, (_, index) => keeper.lock(`${owner}-${index}`).acquire()),
      ),
    );
    const cutting = setInterval(() => proxy.cut({ rst: true }), 500);
    const until = performance.now() + 9_000;
    while (performance.now() < until) {
      for (const hold of holds) {
        const [key] = await queueOf(truth, namespace, hold.name);
        if (key?.createRevision !== hold.token.revision) expect(hold.standing).toBe('lost');
      }
    }
    clearInterval(cutting);
    expect(proxy.accepted).toBeGreaterThan(20);
    // On a machine that needs more than 500 ms for a connection and a renewal they are lost, and say so.
    const after = await Promise.all(keepers.map((keeper, owner) => keeper.lock(`after-${owner}`).acquire()));
    expect(after.map(({ standing }) => standing)).not.toContain('lost');
    await Promise.all(keepers.map((keeper) => keeper.close()));
  });

  it('B15: silent for 3.5 s twice within a TTL of 9 s or two: no hold is lost', async () => {
    await using proxy = await startTcpProxy(etcd.endpoint);
    const namespace = randomUUID();
    await using keeper = await connect({ hosts: proxy.url, namespace, ttlMs: 9_000 });
    const hold = await keeper.lock('x').acquire();
    for (let stall = 0; stall < 2; stall += 1) {
      await sleep(1_500);
      using _ = proxy.blackhole();
      await sleep(3_500);
      expect(hold.signal.aborted).toBe(false);
    }
    await waitUntil('renewed again', () => hold.standing === 'held' && hold.remainingMs() > 4_500, {
      timeoutMs: 9_000,
    });
    expect(hold.signal.aborted).toBe(false);
  });
});

it('B15: 200 sessions that began in one moment do not renew in one moment, nor in few', async () => {
  const clock = new ChancyClock();
  const store = memoryStore({ clock });
  const renewedAt: number[] = [];
  const keepers = await Promise.all(
    Array.from({ length: 200 }, () => {
      const coordinator = memoryCoordinator({ store });
      const renew = coordinator.renew.bind(coordinator);
      coordinator.renew = (...args) => {
        renewedAt.push(clock.now());
        return renew(...args);
      };
      return connect({ coordinator, ttlMs: 6_000 });
    }),
  );
  await Promise.all(keepers.map((keeper, index) => keeper.lock(`${index}`).acquire()));
  await clock.advance(10_000);
  expect(renewedAt.length).toBeGreaterThanOrEqual(4 * 200);
  const moments = new Map<number, number>();
  for (const at of renewedAt) {
    const tenth = Math.floor(at / 100);
    moments.set(tenth, (moments.get(tenth) ?? 0) + 1);
  }
  // Renewals every 2 s, each up to 0.2 s early: after the first round they fill a few tenths of a second.
  expect(Math.max(...moments.values())).toBeLessThan(150);
  expect(moments.size).toBeGreaterThan(10);
  const closing = Promise.all(keepers.map((keeper) => keeper.close()));
  await clock.advance(1_000);
  await closing;
});

describe('members that answer wrongly or not at all', () => {
  it('F13: one that knows no lease does not end a hold which the others know', async () => {
    await using fake = await startForgetfulMember();
    await using proxy = await startTcpProxy(etcd.endpoint);
    const namespace = randomUUID();
    const hosts = [proxy.url, fake.endpoint, etcd.endpoint];
    await using keeper = await connect({ hosts, namespace, ttlMs: 9_000, callTimeoutMs: 20_000 });
    const hold = await keeper.lock('x').acquire();
    using _ = proxy.refuse();
    proxy.cut({ rst: true });
    await waitUntil('the fake was asked', () => fake.renewals > 0);
    await waitUntil('renewed by another', () => hold.standing !== 'suspect' && hold.remainingMs() > 6_000);
    expect(hold.signal.reason).toBeUndefined();
    expect(hold.standing).toBe('held');
  });

  it('F5: mute first, silent second, healthy third: connected and acquired within 3 s', async () => {
    await using mute = await muteServer();
    await using proxy = await startTcpProxy(etcd.endpoint);
    using _ = proxy.blackhole();
    const hosts = [mute.endpoint, proxy.url, etcd.endpoint];
    const { value: keeper, tookMs } = await timed(() => connect({ hosts, namespace: randomUUID() }));
    const acquired = await timed(async () => keeper?.lock('x').acquire());
    expect(acquired.value?.standing).toBe('held');
    expect(tookMs + acquired.tookMs).toBeLessThan(3_000);
    await keeper?.close();
  });
});
