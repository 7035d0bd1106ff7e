import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import { type EtcdServer, etcdMetric, startEtcd, waitUntil } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import { queueOf, timed } from './support.ts';

const auth = { username: 'clerk', password: 'pencil' };

async function asRoot(etcd: EtcdServer, command: string): Promise<void> {
  await etcd.ctl(['--user', 'root:secret', ...command.split(' ')]);
}

/** `clerk` may use what lies below one namespace, and nothing else. */
async function secure(etcd: EtcdServer, namespace: string): Promise<void> {
  for (const command of [
    'user add root:secret',
    'role add root',
    'user grant-role root root',
    'user add clerk:pencil',
    'role add office',
    `role grant-permission office --prefix=true readwrite ${namespace}/`,
    'user grant-role clerk office',
    'auth enable',
  ]) {
    await etcd.ctl(command.split(' '));
  }
}

/** What makes etcd hand out signed tokens, which no member has to remember. */
async function signedTokens(folder: string, ttl: string): Promise<string> {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const [secret, open] = [join(folder, 'private.pem'), join(folder, 'public.pem')];
  await writeFile(secret, privateKey.export({ type: 'pkcs1', format: 'pem' }));
  await writeFile(open, publicKey.export({ type: 'spki', format: 'pem' }));
  return `jwt,pub-key=${open},priv-key=${secret},sign-method=RS256,ttl=${ttl}`;
}

function logins(etcd: EtcdServer): Promise<number> {
  return etcdMetric(etcd.endpoint, 'grpc_server_started_total', 'grpc_method="Authenticate"');
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
      const folder = await mkdtemp(join(tmpdir(), 'lockkeeper-jwt-'));
      try {
        const tokens = await signedTokens(folder, '3s');
        await using etcd = await startEtcd({ version, extraArgs: ['--auth-token', tokens] });
        await secure(etcd, namespace);
        const options = { hosts: etcd.endpoint, auth, namespace, ttlMs: 12_000 };
        await using keeper = await connect(options);
        await using waiter = await connect(options);
        const hold = await keeper.lock('x').acquire();
        const waiting = timed(() => waiter.lock('x').acquire());
        await waitUntil(
          'queued',
          async () => (await queueOf(keeper.coordinator, namespace, 'x')).length === 2,
        );
        await asRoot(etcd, 'user add other:word');
        await sleep(5_000);
        expect(hold.standing).toBe('held');
        expect(await hold.release()).toMatchObject({ outcome: 'released' });
        const { value: next, error } = await waiting;
        expect(error).toBeUndefined();
        expect(next?.standing).toBe('held');
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });

    it('whose password is changed learn so within 5 s and fewer than 5 logins, holders and waiters too', async () => {
      const namespace = randomUUID();
      await using etcd = await startEtcd({ version, own: true });
      await secure(etcd, namespace);
      const options = { hosts: etcd.endpoint, auth, namespace, ttlMs: 6_000 };
      const keeper = await connect(options);
      const waiter = await connect(options);
      const hold = await keeper.lock('x').acquire();
      const waiting = timed(() => waiter.lock('x').acquire());
      await sleep(500);
      const before = await logins(etcd);

      await etcd.ctl(['--user', 'root:secret', 'user', 'passwd', 'clerk', '--interactive=false'], {
        input: 'crayon\n',
      });
      const refused = await timed(() => keeper.lock('y').acquire({ waitTimeoutMs: 10_000 }));
      expect(refused.error).toMatchObject({ code: 'unauthenticated' });
      expect(refused.tookMs).toBeLessThan(5_000);
      expect((await waiting).error).toMatchObject({
        code: expect.stringMatching(/unauthenticated|lost-while-waiting/),
      });
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
      await secure(etcd, namespace);
      await using keeper = await connect({ hosts: etcd.endpoint, auth, namespace, ttlMs: 30_000 });
      const hold = await keeper.lock('x').acquire();
      await asRoot(etcd, 'user revoke-role clerk office');
      const refused = await timed(() => keeper.lock('y').acquire({ waitTimeoutMs: 10_000 }));
      expect(refused.error).toMatchObject({ code: 'permission-denied' });
      expect(refused.tookMs).toBeLessThan(5_000);
      expect(await hold.release()).toMatchObject({ outcome: 'unknown' });
      await asRoot(etcd, 'user grant-role clerk office');
      await waitUntil(
        'released after all',
        async () => (await keeper.lock('x').tryAcquire()).hold !== undefined,
      );
    });
  });
}
