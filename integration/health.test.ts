import { connect, etcdCoordinator, type Keeper, type KeeperHealth, LockkeeperError } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import {
  availableEtcdVersions,
  FaultyCoordinator,
  isEnding,
  startEtcd,
  waitUntil,
} from '@lockkeeper/testkit';
import { describe, expect, test } from 'vitest';
import { clerk, QUICK_HASHES, switchOn } from './coordinator/secured-etcd.ts';
import { ownTime } from './support/own-time.ts';

const IDLE = { warnings: [], session: undefined, holds: 0, waits: 0, unconfirmedReleases: 0 };

function blockEventLoop(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe('in memory', () => {
  test('before the first acquire, with a hold and a waiter, and after them', async () => {
    const clock = new VirtualClock();
    const store = memoryStore({ clock });
    const [keeper, other] = await Promise.all(
      [1, 2].map(() => connect({ coordinator: memoryCoordinator({ store }), ttlMs: 10_000 })),
    );
    if (keeper === undefined || other === undefined) throw new Error('two keepers were asked for');
    const endpoints = [{ name: 'memory', connected: true, current: true }];
    expect(await keeper.health()).toEqual({ coordinator: 'memory', endpoints, ...IDLE });

    const hold = await keeper.lock('x').acquire();
    const waiting = other.lock('x').acquire();
    await clock.advance(1_000);
    expect(await keeper.health()).toEqual({
      coordinator: 'memory',
      endpoints,
      ...IDLE,
      holds: 1,
      session: {
        id: expect.stringMatching(/^[0-9a-f]{1,16}$/),
        standing: 'held',
        ttlMs: 10_000,
        remainingMs: 8_000,
        unconfirmedForMs: 1_000,
        renewalLagMs: 0,
      },
    });
    expect(await other.health()).toMatchObject({ holds: 0, waits: 1, session: { standing: 'held' } });
    await hold.release();
    await waiting;
    expect(await keeper.health()).toMatchObject({ holds: 0, waits: 0, unconfirmedReleases: 0 });
    expect(await other.health()).toMatchObject({ holds: 1, waits: 0 });
    expect(JSON.parse(JSON.stringify(await other.health()))).toMatchObject({ holds: 1 });
    await Promise.all([keeper.close(), other.close()]);
    expect(await keeper.health()).toMatchObject({
      coordinator: undefined,
      endpoints: [{ connected: false }],
      warnings: [expect.stringContaining('closed')],
    });
  });

  test('cut off: a release that is not confirmed, a session in doubt, then lost', async () => {
    const clock = new VirtualClock();
    const connection = new FaultyCoordinator(memoryCoordinator({ clock }));
    const keeper = await connect({ coordinator: connection, ttlMs: 10_000 });
    const hold = await keeper.lock('x').acquire();
    await keeper.lock('y').acquire();
    connection.goSilent();
    const releasing = hold.release();
    await clock.advance(6_000);
    expect(await releasing).toMatchObject({ outcome: 'unknown' });
    expect(await keeper.health()).toMatchObject({
      coordinator: undefined,
      warnings: [expect.stringMatching(/did not answer: describe: no reply/)],
      session: { standing: 'suspect', remainingMs: 3_000, unconfirmedForMs: 6_000 },
      holds: 1,
      unconfirmedReleases: 1,
    });
    await clock.advance(4_000);
    expect(await keeper.health()).toMatchObject({
      session: { standing: 'lost', remainingMs: 0 },
      unconfirmedReleases: 0,
    });
    connection.heal();
    await clock.advance(10_000);
    await (await keeper.lock('z').acquire()).release();
    expect(await keeper.health()).toMatchObject({ coordinator: 'memory', session: { standing: 'held' } });
    await keeper.close();
  });

  test('a release counts as unconfirmed until a repeat is confirmed', async () => {
    const clock = new VirtualClock();
    const connection = new FaultyCoordinator(memoryCoordinator({ clock }));
    const keeper = await connect({ coordinator: connection });
    const hold = await keeper.lock('x').acquire();
    connection.loseNextReply(isEnding);
    const releasing = hold.release();
    await clock.advance(0);
    expect(await keeper.health()).toMatchObject({ unconfirmedReleases: 1 });
    await clock.advance(1_000);
    expect(await releasing).toMatchObject({ outcome: 'released' });
    expect(await keeper.health()).toMatchObject({ unconfirmedReleases: 0 });
    await keeper.close();
  });

  test('a coordinator that never answers is waited for no longer than timeoutMs', async () => {
    const clock = new VirtualClock();
    class Mute extends FaultyCoordinator {
      override describe(): Promise<string> {
        return new Promise(() => {});
      }
    }
    const keeper = await connect({ coordinator: new Mute(memoryCoordinator({ clock })) });
    let health: KeeperHealth | undefined;
    void keeper.health({ timeoutMs: 700 }).then((told) => {
      health = told;
    });
    await clock.advance(699);
    expect(health).toBeUndefined();
    await clock.advance(1);
    expect(health).toMatchObject({
      coordinator: undefined,
      warnings: ['the coordinator did not answer within 700 ms'],
    });
    await keeper.close();
  });

  test('timeoutMs is checked', async () => {
    await using keeper = await connect({ coordinator: memoryCoordinator({ clock: new VirtualClock() }) });
    for (const timeoutMs of [0, -1, Number.NaN]) {
      const error = await keeper.health({ timeoutMs }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(LockkeeperError);
      expect(error).toMatchObject({ code: 'invalid-option' });
    }
  });

  test('a process that stood still shows as renewal lag', async () => {
    await using keeper = await connect({ coordinator: memoryCoordinator(), ttlMs: 6_000 });
    await keeper.lock('x').acquire();
    blockEventLoop(3_000);
    // Due after a third of the time-to-live at the latest, and not sent yet.
    const { session } = await keeper.health();
    expect(session?.renewalLagMs).toBeGreaterThan(900);
    await waitUntil('renewed', async () => ((await keeper.health()).session?.unconfirmedForMs ?? 0) < 500);
    expect((await keeper.health()).session?.renewalLagMs).toBeGreaterThan(900);
    await waitUntil('on time', async () => ((await keeper.health()).session?.renewalLagMs ?? 0) < 500);
  });
});

describe('on etcd', async () => {
  const versions = await availableEtcdVersions();

  async function answersWithin(keeper: Keeper, limitMs: number): Promise<KeeperHealth> {
    const begun = ownTime();
    const health = await keeper.health({ timeoutMs: 500 });
    expect(ownTime() - begun).toBeLessThan(limitMs);
    return health;
  }

  test.each(versions)('%s names itself, and what speaks against it', async (version) => {
    await using server = await startEtcd({ version });
    await using keeper = await connect({ hosts: server.endpoint });
    const health = await keeper.health();
    expect(health).toMatchObject({
      coordinator: `etcd ${version}`,
      endpoints: [{ name: server.endpoint, connected: true, current: true }],
      session: undefined,
    });
    const isOld = version.startsWith('3.4.');
    expect(health.warnings.length > 0).toBe(isOld);
    for (const warning of health.warnings) expect(warning).toContain(version);
  });

  test('frozen, then dead: still answers with what is known', async () => {
    await using server = await startEtcd({ version: 'newest', own: true });
    await using keeper = await connect({ hosts: [server.endpoint], ttlMs: 20_000 });
    const hold = await keeper.lock('x').acquire();
    await server.pause();
    const frozen = await answersWithin(keeper, 1_500);
    expect(frozen).toMatchObject({
      coordinator: undefined,
      endpoints: [{ name: server.endpoint, current: true }],
      session: { standing: hold.standing, ttlMs: 20_000 },
      holds: 1,
    });
    expect(frozen.warnings).toHaveLength(1);
    await server.kill();
    await waitUntil('noticed', () => keeper.coordinator.endpoints()[0]?.connected === false);
    const dead = await answersWithin(keeper, 1_500);
    expect(dead).toMatchObject({ coordinator: undefined, endpoints: [{ connected: false }], holds: 1 });
    expect(dead.warnings[0]).toContain(server.endpoint);
  });

  test('a user whom etcd does not tell its version is told so', async () => {
    await using server = await startEtcd({ version: 'newest', own: true, extraArgs: QUICK_HASHES });
    await switchOn(server, 'app/');
    await using keeper = await connect({ hosts: server.endpoint, auth: clerk, namespace: 'app' });
    expect((await keeper.health()).warnings).toEqual([expect.stringContaining('does not tell its version')]);
  });

  test('a member that nobody has needed yet is not connected, and asking does not change that', async () => {
    await using server = await startEtcd();
    await using coordinator = etcdCoordinator({ hosts: [server.endpoint, 'http://127.0.0.1:1'] });
    const none = [server.endpoint, 'http://127.0.0.1:1'].map((name, index) => {
      return { name, connected: false, current: index === 0 };
    });
    expect(coordinator.endpoints()).toEqual(none);
    await coordinator.range({ key: 'x' });
    expect(coordinator.endpoints()).toEqual([{ ...none[0], connected: true }, none[1]]);
  });
});
