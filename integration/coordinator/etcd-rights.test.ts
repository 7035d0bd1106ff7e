import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Coordinator,
  connect,
  etcdCoordinator,
  type Hold,
  prefixSpan,
  type TelemetryEvents,
} from '@lockkeeper/core';
import {
  availableEtcdVersions,
  type EtcdServer,
  etcdSigningKeys,
  startEtcd,
  waitUntil,
} from '@lockkeeper/testkit';
import { describe, expect, test } from 'vitest';
import { keysBelow, queueOf, timed } from '../faults/support.ts';
import { stoodStillMs } from '../support/own-time.ts';
import { clerk, logins, QUICK_HASHES, SHORT_TOKENS, switchOn } from './secured-etcd.ts';
import { failure, put, Recorder } from './support.ts';

const versions = await availableEtcdVersions();
const NAMESPACE = 'team';

function keeperOptions(server: EtcdServer, auth: Parameters<typeof etcdCoordinator>[0]['auth'] = clerk) {
  return { hosts: server.endpoint, auth, namespace: NAMESPACE };
}

/** The reason of a loss, when it is told. */
function lossOf(hold: Hold): Promise<{ lossCause: string }> {
  const { signal } = hold;
  if (signal.aborted) return Promise.resolve(signal.reason);
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason)));
}

/** They wait rather than compute, and each has an etcd of its own. */
const concurrently = { concurrent: true };

describe('tokens that lapse after 3 s', concurrently, () => {
  test.each(versions)('every verb logs in again, once: etcd %s', async (version) => {
    await using server = await startEtcd({ version, extraArgs: [...QUICK_HASHES, ...SHORT_TOKENS] });
    await switchOn(server, 'app/');
    const begun = await logins(server);
    const verbs: Record<string, (coordinator: Coordinator, lease: bigint) => Promise<unknown>> = {
      range: (coordinator) => coordinator.range({ key: 'app/x' }),
      txn: (coordinator) => coordinator.txn(put('app/x')),
      grant: (coordinator, lease) => coordinator.grant({ lease: lease + 100n, ttlMs: 60_000 }),
      renew: async (coordinator, lease) => {
        expect(await coordinator.renew(lease)).toEqual({ ttlMs: 60_000 });
      },
      revoke: (coordinator, lease) => coordinator.revoke(lease),
      watch: async (coordinator) => {
        const seen = new Recorder();
        using _ = coordinator.watch({ ...prefixSpan('app/'), startRevision: 1n }, seen.handler);
        await seen.until(({ events, ended }) => events.length > 0 || ended !== undefined);
        expect(seen.ended).toBeUndefined();
      },
    };
    const cases = Object.entries(verbs).map(([verb, call], index) => {
      const coordinator = etcdCoordinator({ hosts: server.endpoint, auth: clerk });
      return { verb, call, coordinator, lease: BigInt(index + 1) };
    });
    for (const { coordinator, lease } of cases) {
      await coordinator.grant({ lease, ttlMs: 60_000 });
      await coordinator.txn(put('app/seen'));
    }
    expect((await logins(server)) - begun).toBe(cases.length);
    await sleep(5_000);
    const again: Record<string, number> = {};
    for (const { verb, call, coordinator, lease } of cases) {
      const before = await logins(server);
      await call(coordinator, lease);
      again[verb] = (await logins(server)) - before;
      await coordinator.close();
    }
    // etcd 3.4 renews a lease for anybody.
    const renew = version.startsWith('3.4.') ? 0 : 1;
    expect(again).toEqual({ range: 1, txn: 1, grant: 1, renew, revoke: 1, watch: 1 });
  });

  test('a hold, a waiter that comes late, a release, a restart: all go on', async () => {
    await using server = await startEtcd({
      version: 'newest',
      extraArgs: [...QUICK_HASHES, ...SHORT_TOKENS],
    });
    await switchOn(server, `${NAMESPACE}/`);
    await using keeper = await connect({ ...keeperOptions(server), ttlMs: 6_000 });
    await using other = await connect(keeperOptions(server));
    const hold = await keeper.lock('x').acquire();
    await sleep(10_000);
    expect(hold.standing).toBe('held');

    const waiting = timed(() => other.lock('x').acquire());
    await waitUntil('queued', async () => (await queueOf(keeper.coordinator, NAMESPACE, 'x')).length === 2);
    await server.restart();
    await sleep(4_000);
    expect(hold.standing).toBe('held');
    expect(await hold.release()).toMatchObject({ outcome: 'released' });
    const next = await waiting;
    expect(next.error).toBeUndefined();
    expect(next.value?.token.revision).toBeGreaterThan(hold.token.revision);
    expect(await next.value?.release()).toMatchObject({ outcome: 'released' });
    expect(await keysBelow(keeper.coordinator, `${NAMESPACE}/lock/`)).toEqual([]);
  });
});

describe('passwords', concurrently, () => {
  test('a wrong one: refused in less than 5 s, after less than 5 logins, however many ask', async () => {
    await using server = await startEtcd({ version: 'newest', own: true, extraArgs: QUICK_HASHES });
    await switchOn(server, `${NAMESPACE}/`);
    const begun = await logins(server);
    const wrong = { ...clerk, password: 'wrong' };
    const { error, tookMs } = await timed(() => connect(keeperOptions(server, wrong)));
    expect(error).toMatchObject({ code: 'unauthenticated', outcome: 'rejected' });
    expect(tookMs).toBeLessThan(5_000);
    expect((await logins(server)) - begun).toBeLessThan(5);

    await using coordinator = etcdCoordinator({ hosts: server.endpoint, auth: wrong });
    const before = await logins(server);
    for (let i = 0; i < 10; i++) {
      const call = await failure(coordinator.range({ key: `${NAMESPACE}/x` }));
      expect(call.error).toMatchObject({ code: 'unauthenticated', outcome: 'rejected' });
    }
    expect((await logins(server)) - before).toBeLessThan(5);
  });

  test('changed under a hold: it lasts to its deadline and ends as unauthorized; acquires are refused at once', async () => {
    await using server = await startEtcd({ version: 'newest', own: true, extraArgs: QUICK_HASHES });
    const root = await switchOn(server, `${NAMESPACE}/`);
    const lost: TelemetryEvents['lockkeeper:session:lost'][] = [];
    const listen = (event: unknown) => {
      const told = event as TelemetryEvents['lockkeeper:session:lost'];
      if (told.cause === 'unauthorized') lost.push(told);
    };
    subscribe('lockkeeper:session:lost', listen);
    await using keeper = await connect({ ...keeperOptions(server), ttlMs: 6_000 });
    const hold = await keeper.lock('x').acquire();
    const stoodBefore = stoodStillMs();
    await root.changePassword(clerk.username, 'crayon');
    const begun = await logins(server);

    const { error, tookMs } = await timed(() => keeper.lock('y').acquire());
    expect(error).toMatchObject({ code: 'unauthenticated', outcome: 'rejected' });
    expect(tookMs).toBeLessThan(2_000);
    expect((await logins(server)) - begun).toBeLessThan(5);
    expect(hold.standing).not.toBe('lost');

    expect(await lossOf(hold)).toMatchObject({ code: 'lost', lossCause: 'unauthorized' });
    unsubscribe('lockkeeper:session:lost', listen);
    expect(lost).toMatchObject([{ cause: 'unauthorized' }]);
    expect(lost[0]?.unconfirmedForMs).toBeGreaterThanOrEqual(6_000 - 600);
    const unconfirmedForMs = (lost[0]?.unconfirmedForMs ?? Number.NaN) - (stoodStillMs() - stoodBefore);
    expect(unconfirmedForMs).toBeLessThan(6_000);
    expect((await logins(server)) - begun).toBeLessThan(10);
  });

  test('given by a function: asked at every login, and a hold outlives a rotation', async () => {
    await using server = await startEtcd({ version: 'newest', own: true, extraArgs: QUICK_HASHES });
    const root = await switchOn(server, `${NAMESPACE}/`);
    let current = clerk.password;
    let asked = 0;
    const password = async () => {
      asked += 1;
      return current;
    };
    await using keeper = await connect({
      ...keeperOptions(server, { ...clerk, password }),
      ttlMs: 4_000,
    });
    const hold = await keeper.lock('x').acquire();
    expect(asked).toBe(1);
    for (const next of ['crayon', 'chalk']) {
      current = next;
      await root.changePassword(clerk.username, next);
      await (await keeper.lock('y').acquire()).release();
    }
    expect(asked).toBe(3);

    // One that was refused is not shown again at once, but another one is.
    await using coordinator = etcdCoordinator({ hosts: server.endpoint, auth: { ...clerk, password } });
    current = 'not yet';
    const { error } = await failure(coordinator.range({ key: `${NAMESPACE}/x` }));
    expect(error).toMatchObject({ code: 'unauthenticated' });
    current = 'chalk';
    await coordinator.range({ key: `${NAMESPACE}/x` });

    await sleep(4_000);
    expect(hold.standing).toBe('held');
    expect(hold.signal.reason).toBeUndefined();
  });

  test('a function that fails, hangs or gives no text is an answer, not a hang', async () => {
    await using server = await startEtcd({ version: 'newest', own: true, extraArgs: QUICK_HASHES });
    await switchOn(server, `${NAMESPACE}/`);
    const cases: readonly [() => unknown, object][] = [
      [() => Promise.reject(new Error('vault is sealed')), { code: 'unauthenticated', outcome: 'rejected' }],
      [() => 7, { code: 'unauthenticated', outcome: 'rejected' }],
      [() => new Promise(() => {}), { code: 'unreachable', outcome: 'rejected' }],
    ];
    for (const [source, expected] of cases) {
      const password = source as () => string;
      await using coordinator = etcdCoordinator({
        hosts: server.endpoint,
        auth: { ...clerk, password },
        callTimeoutMs: 3_000,
      });
      const { error, tookMs } = await failure(coordinator.txn(put(`${NAMESPACE}/x`)));
      expect(error).toMatchObject(expected);
      expect(error.message).toMatch(/auth\.password\(\) (failed: vault is sealed|gave no string)|login on/);
      expect(tookMs).toBeLessThan(6_000);
    }
  });
});

describe('rights', concurrently, () => {
  test('signed tokens: roles and users that change make them old, which costs no hold and no waiter', async () => {
    await using keys = etcdSigningKeys();
    await using server = await startEtcd({ version: 'newest', extraArgs: [...QUICK_HASHES, ...keys.args] });
    const root = await switchOn(server, `${NAMESPACE}/`);
    await using keeper = await connect({ ...keeperOptions(server), ttlMs: 4_000 });
    await using other = await connect(keeperOptions(server));
    const hold = await keeper.lock('x').acquire();
    const waiting = timed(() => other.lock('x').acquire());
    await waitUntil('queued', async () => (await queueOf(keeper.coordinator, NAMESPACE, 'x')).length === 2);
    for (let i = 0; i < 5; i++) {
      await root.ctl(['role', 'add', `role-${i}`]);
      await root.ctl(['user', 'grant-role', 'clerk', `role-${i}`]);
      await sleep(1_000);
      await (await keeper.lock('y').acquire()).release();
    }
    expect(hold.standing).toBe('held');
    expect(await hold.release()).toMatchObject({ outcome: 'released' });
    const next = await waiting;
    expect(next.error).toBeUndefined();
    expect(next.value?.standing).toBe('held');
  });

  test('read and write below the own namespace is all the right a lock needs, and all it uses', async () => {
    await using server = await startEtcd({ version: 'newest', own: true, extraArgs: QUICK_HASHES });
    const neighbours = [`${NAMESPACE}-b/lock/x/1`, `${NAMESPACE}0`, NAMESPACE, 'other/lock/x/1'];
    for (const key of neighbours) await server.ctl(['put', key, 'theirs']);
    const operator = await switchOn(server, `${NAMESPACE}/`);
    await using root = etcdCoordinator({
      hosts: server.endpoint,
      auth: { username: 'root', password: 'secret' },
    });
    const begun = (await root.range({ key: 'x' })).revision;
    await using keeper = await connect({ ...keeperOptions(server), ttlMs: 4_000 });
    await using other = await connect(keeperOptions(server));

    const hold = await keeper.lock('x').acquire();
    expect((await other.lock('x').tryAcquire()).holder?.createRevision).toBe(hold.token.revision);
    expect((await timed(() => other.lock('x').acquire({ waitTimeoutMs: 1_500 }))).error).toMatchObject({
      code: 'wait-timeout',
    });
    const waiting = other.lock('x').acquire();
    await waitUntil('queued', async () => (await queueOf(root, NAMESPACE, 'x')).length === 2);
    const guarded = await keeper.coordinator.txn({
      compare: hold.compare(),
      success: [{ op: 'put', key: `${NAMESPACE}/data/balance`, value: '1' }],
      failure: [],
    });
    expect(guarded.succeeded).toBe(true);
    // Longer than a time-to-live: the renewal, the question for the lineage and the ownership watch need no more.
    await sleep(4_500);
    expect(hold.standing).toBe('held');
    expect(await hold.release()).toMatchObject({ outcome: 'released' });
    const next = await waiting;
    await operator.ctl(['del', `${NAMESPACE}/lock/x/`, '--prefix']);
    expect(await lossOf(next)).toMatchObject({ lossCause: 'key-deleted' });
    await Promise.all([keeper.close(), other.close()]);

    const seen = new Recorder();
    await root.txn(put('end'));
    using _ = root.watch({ key: 'a', rangeEnd: '\0', startRevision: begun + 1n }, seen.handler);
    await seen.until(({ told }) => told.includes('put end'));
    const touched = new Set(seen.told.map((line) => line.split(' ')[1] as string));
    touched.delete('end');
    expect(touched.size).toBeGreaterThan(3);
    expect([...touched].filter((key) => !key.startsWith(`${NAMESPACE}/`))).toEqual([]);
    expect(await keysBelow(root, `${NAMESPACE}/lock/`)).toEqual([]);

    await using stranger = etcdCoordinator({ hosts: server.endpoint, auth: clerk });
    for (const key of neighbours) {
      expect((await failure(stranger.range({ key }))).error).toMatchObject({ code: 'permission-denied' });
    }
  });
});
