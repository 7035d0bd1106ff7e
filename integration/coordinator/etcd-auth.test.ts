import { etcdCoordinator, prefixSpan } from '@lockkeeper/core';
import { availableEtcdVersions, type EtcdServer, etcdSigningKeys, startEtcd } from '@lockkeeper/testkit';
import { describe, expect, test } from 'vitest';
import { clerk, QUICK_HASHES, switchOn } from './secured-etcd.ts';
import { failure, put, Recorder } from './support.ts';

const versions = await availableEtcdVersions();

/** `clerk` may read and write below `app/`, nothing else. */
const switchOnAuthentication = (server: EtcdServer) => switchOn(server, 'app/');

describe.each(versions)('users of etcd %s', (version) => {
  test('log in, keep to their rights, and stay logged in over a restart that forgets tokens', async () => {
    await using server = await startEtcd({ version, extraArgs: QUICK_HASHES });
    await switchOnAuthentication(server);
    await using coordinator = etcdCoordinator({ hosts: server.endpoint, auth: clerk });

    const { revision } = await coordinator.txn(put('app/1'));
    // Later versions tell theirs to root alone.
    expect([`etcd ${server.version}`, 'etcd of a version it does not tell']).toContain(
      await coordinator.describe(),
    );
    const seen = new Recorder();
    using _ = coordinator.watch({ ...prefixSpan('app/'), startRevision: revision }, seen.handler);
    await coordinator.grant({ lease: 5n, ttlMs: 60_000 });
    expect(await coordinator.renew(5n)).toEqual({ ttlMs: 60_000 });

    for (const call of [() => coordinator.txn(put('other')), () => coordinator.range({ key: 'other' })]) {
      expect((await failure(call())).error).toMatchObject({ code: 'permission-denied', outcome: 'rejected' });
    }
    const denied = new Recorder();
    using __ = coordinator.watch({ key: 'other', startRevision: 1n }, denied.handler);
    await denied.until(({ ended }) => ended !== undefined);
    expect(denied.ended).toMatchObject({ code: 'permission-denied' });

    await server.restart();
    await coordinator.txn(put('app/2'), { timeoutMs: 10_000 });
    expect(await coordinator.renew(5n)).toEqual({ ttlMs: 60_000 });
    await seen.until(({ events }) => events.length === 2);
    expect(seen.told).toEqual(['put app/1', 'put app/2']);
  });

  test('a stale token of many calls at once costs no call', async () => {
    await using server = await startEtcd({ version, extraArgs: QUICK_HASHES });
    await switchOnAuthentication(server);
    await using coordinator = etcdCoordinator({ hosts: server.endpoint, auth: clerk });
    await coordinator.range({ key: 'app/' });
    await server.restart();
    await Promise.all(
      Array.from({ length: 50 }, (_, i) => coordinator.txn(put(`app/${i}`), { timeoutMs: 10_000 })),
    );
    expect(await coordinator.range(prefixSpan('app/'))).toMatchObject({ count: 50 });
  });

  test('a wrong password, or none, is refused at once and for watches as well', async () => {
    await using server = await startEtcd({ version, extraArgs: QUICK_HASHES });
    await switchOnAuthentication(server);
    for (const auth of [{ ...clerk, password: 'wrong' }, undefined]) {
      await using coordinator = etcdCoordinator({ hosts: server.endpoint, auth });
      const { error, tookMs } = await failure(coordinator.txn(put('app/1')));
      expect(error).toMatchObject({ code: 'unauthenticated', outcome: 'rejected' });
      expect(error.message).not.toContain('wrong');
      expect(tookMs).toBeLessThan(2_000);
      const seen = new Recorder();
      using _ = coordinator.watch({ key: 'app/1', startRevision: 1n }, seen.handler);
      await seen.until(({ ended }) => ended !== undefined);
      expect(['unauthenticated', 'permission-denied']).toContain(seen.ended?.code);
    }
  });

  test('a cluster whose authentication is still off takes a user anyway', async () => {
    await using server = await startEtcd({ version, extraArgs: QUICK_HASHES });
    await using coordinator = etcdCoordinator({ hosts: server.endpoint, auth: clerk });
    await coordinator.txn(put('app/1'));
    await switchOnAuthentication(server);
    await coordinator.txn(put('app/2'));
  });

  test('signed tokens: a change of users makes them old, which costs no call and no watch', async () => {
    await using keys = etcdSigningKeys();
    await using server = await startEtcd({ version, extraArgs: [...QUICK_HASHES, ...keys.args] });
    await switchOnAuthentication(server);
    await using coordinator = etcdCoordinator({ hosts: server.endpoint, auth: clerk });
    const { revision } = await coordinator.txn(put('app/1'));
    const early = new Recorder();
    using _ = coordinator.watch({ key: 'app/1', startRevision: revision }, early.handler);
    await early.until(({ events }) => events.length === 1);

    await server.ctl(['--user', 'root:secret', 'user', 'add', 'other:word']);
    const late = new Recorder();
    using __ = coordinator.watch({ key: 'app/1', startRevision: revision }, late.handler);
    await late.until(({ events, ended }) => events.length === 1 || ended !== undefined);
    expect(late.ended?.message).toBeUndefined();
    await coordinator.txn(put('app/1', 'again'));
    await early.until(({ events }) => events.length === 2);
  });
});
