import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import {
  type EtcdRoot,
  type EtcdServer,
  enableEtcdAuth,
  etcdSigningKeys,
  startEtcd,
  waitUntil,
} from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import { logins } from '../coordinator/secured-etcd.ts';
import { queueOf, timed } from './support.ts';

const auth = { username: 'clerk', password: 'pencil' };

/** `clerk` may use what lies below one namespace, and nothing else. */
function secure(etcd: EtcdServer, namespace: string): Promise<EtcdRoot> {
  return enableEtcdAuth(etcd, [{ ...auth, prefix: `${namespace}/` }]);
}

/** Users with names and passwords: what lapses, what is changed, and what was wrong from the start. */
export function describeUsers(version: string): void {
  describe(`J1: users of etcd ${version}`, () => {
    it('hold, wait and release on, with tokens that lapse after 3 s and a restart that forgets them', async () => {
      const namespace = randomUUID();
      await using etcd = await startEtcd({ version, extraArgs: ['--auth-token-ttl=3'] });
      await secure(etcd, namespace);
      const options = { hosts: etcd.endpoint, auth, namespace, ttlMs: 12_000 };
      await using keeper = await connect(options);
      await using waiter = await connect(options);
      const hold = await keeper.lock('x').acquire();
      // Renewals every 4 s: each finds its token lapsed.
      await sleep(5_000);
      expect(hold.standing).toBe('held');
      const waiting = timed(() => waiter.lock('x').acquire());
      await sleep(4_000);
      expect(await hold.release()).toMatchObject({ outcome: 'released' });
      const { value: second, error } = await waiting;
      expect(error).toBeUndefined();

      const third = timed(() => keeper.lock('x').acquire());
      await waitUntil('queued', async () => (await queueOf(keeper.coordinator, namespace, 'x')).length === 2);
      await etcd.restart();
      await sleep(1_000);
      expect(second?.standing).toBe('held');
      expect(await second?.release()).toMatchObject({ outcome: 'released' });
      const { value: last, error: failed } = await third;
      expect(failed).toBeUndefined();
      expect(last?.standing).toBe('held');
    });

    it('hold and wait on with signed tokens that lapse after 3 s, and after a change of users made them old', async () => {
      const namespace = randomUUID();
      await using tokens = etcdSigningKeys({ ttl: '3s' });
      await using etcd = await startEtcd({ version, extraArgs: tokens.args });
      const root = await secure(etcd, namespace);
      const options = { hosts: etcd.endpoint, auth, namespace, ttlMs: 12_000 };
      await using keeper = await connect(options);
      await using waiter = await connect(options);
      const hold = await keeper.lock('x').acquire();
      const waiting = timed(() => waiter.lock('x').acquire());
      await waitUntil('queued', async () => (await queueOf(keeper.coordinator, namespace, 'x')).length === 2);
      await root.ctl(['user', 'add', 'other:word']);
      await sleep(5_000);
      expect(hold.standing).toBe('held');
      expect(await hold.release()).toMatchObject({ outcome: 'released' });
      const { value: next, error } = await waiting;
      expect(error).toBeUndefined();
      expect(next?.standing).toBe('held');
    });

    it('whose password is changed learn so within 5 s and fewer than 5 logins, holders and waiters too', async () => {
      const namespace = randomUUID();
      await using etcd = await startEtcd({ version, own: true });
      const root = await secure(etcd, namespace);
      const options = { hosts: etcd.endpoint, auth, namespace, ttlMs: 6_000 };
      const keeper = await connect(options);
      const waiter = await connect(options);
      const hold = await keeper.lock('x').acquire();
      const waiting = timed(() => waiter.lock('x').acquire());
      await sleep(500);
      const before = await logins(etcd);

      await root.changePassword('clerk', 'crayon');
      const refused = await timed(() => keeper.lock('y').acquire({ waitTimeoutMs: 10_000 }));
      expect(refused.error).toMatchObject({ code: 'unauthenticated' });
      expect(refused.tookMs).toBeLessThan(5_000);
      // Where the holder's key went first, the waiter was granted what its lease still covers, and loses that.
      const { value: granted, error } = await waiting;
      if (granted === undefined) {
        expect(error).toMatchObject({ code: expect.stringMatching(/unauthenticated|lost-while-waiting/) });
      } else {
        await waitUntil('the waiter knows', () => granted.standing === 'lost', { timeoutMs: 10_000 });
        expect(granted.signal.reason).toMatchObject({ code: 'lost', lossCause: 'unauthorized' });
      }
      await waitUntil('the holder knows', () => hold.standing === 'lost', { timeoutMs: 10_000 });
      expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'unauthorized' });
      // ctl's own logins are among them.
      expect((await logins(etcd)) - before).toBeLessThan(3 * 5);
      await Promise.all([keeper.close(), waiter.close()]);
    });

    it('with a wrong password do not get in, and try once', async () => {
      const namespace = randomUUID();
      await using etcd = await startEtcd({ version, own: true });
      await secure(etcd, namespace);
      const before = await logins(etcd);
      const wrong = { ...auth, password: 'brush' };
      const { error, tookMs } = await timed(() => connect({ hosts: etcd.endpoint, auth: wrong, namespace }));
      expect(error).toMatchObject({ code: 'unauthenticated', outcome: 'rejected' });
      expect(tookMs).toBeLessThan(5_000);
      expect((await logins(etcd)) - before).toBe(1);
    });

    it('whose role is withdrawn are refused at once, keep what they hold, and release it when they may again', async () => {
      const namespace = randomUUID();
      await using etcd = await startEtcd({ version, own: true });
      const root = await secure(etcd, namespace);
      await using keeper = await connect({ hosts: etcd.endpoint, auth, namespace, ttlMs: 30_000 });
      const hold = await keeper.lock('x').acquire();
      await root.ctl(['user', 'revoke-role', 'clerk', 'clerk']);
      const refused = await timed(() => keeper.lock('y').acquire({ waitTimeoutMs: 10_000 }));
      expect(refused.error).toMatchObject({ code: 'permission-denied' });
      expect(refused.tookMs).toBeLessThan(5_000);
      expect(await hold.release()).toMatchObject({ outcome: 'unknown' });
      await root.ctl(['user', 'grant-role', 'clerk', 'clerk']);
      await waitUntil(
        'released after all',
        async () => (await keeper.lock('x').tryAcquire()).hold !== undefined,
      );
    });
  });
}
