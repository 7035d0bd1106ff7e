import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Keeper } from '@lockkeeper/core';
import { availableEtcdVersions, type EtcdServer, startEtcd } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Another program that queues at `<namespace>/lock/<name>`: it says when it holds the lock, and lets go. */
interface Contender {
  readonly granted: Promise<unknown>;
  release(): Promise<unknown>;
}

for (const version of await availableEtcdVersions()) {
  describe(`etcd ${version} interoperates`, () => {
    let etcd: EtcdServer;
    let keeper: Keeper;
    const namespace = randomUUID();
    beforeAll(async () => {
      etcd = await startEtcd({ version });
      keeper = await connect({ hosts: etcd.endpoint, namespace });
    });
    afterAll(async () => {
      await keeper.close();
      await etcd.stop();
    });

    /** `etcdctl lock` prints the key it holds, and releases when it is told to end. */
    function etcdctlLock(name: string): Contender {
      const child = etcd.spawnCtl(['lock', `${namespace}/lock/${name}`]);
      const exited = once(child, 'exit');
      const granted = once(child.stdout, 'data').then(([line]) => String(line).trim());
      const release = () => {
        child.kill('SIGINT');
        return exited;
      };
      return { granted, release };
    }

    /** The lock service that the server itself offers, through its JSON gateway. */
    function v3Lock(name: string): Contender {
      const call = async (path: string, body: object): Promise<Record<string, string>> => {
        const reply = await fetch(`${etcd.endpoint}/v3/${path}`, {
          method: 'POST',
          body: JSON.stringify(body),
        });
        if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
        return reply.json() as Promise<Record<string, string>>;
      };
      const granted = call('lease/grant', { TTL: '60' }).then(({ ID }) =>
        call('lock/lock', { name: Buffer.from(`${namespace}/lock/${name}`).toString('base64'), lease: ID }),
      );
      return { granted, release: async () => call('lock/unlock', { key: (await granted)['key'] }) };
    }

    async function queued(name: string, length: number): Promise<void> {
      const span = { key: `${namespace}/lock/${name}/`, rangeEnd: `${namespace}/lock/${name}0` };
      while ((await keeper.coordinator.range(span)).count !== length) await sleep(10);
    }

    /** Whether it is still pending after everything that was under way has had its time. */
    async function pending(promise: Promise<unknown>): Promise<boolean> {
      return (await Promise.race([promise.then(() => 'settled'), sleep(300, 'pending')])) === 'pending';
    }

    it.each([
      ['etcdctl lock', etcdctlLock],
      ["the server's v3lock service", v3Lock],
    ])('%s and our lock exclude each other, first come, first served', async (what, contend) => {
      const name = what.replace(/\W/g, '');
      const lock = keeper.lock(name);
      const first = await lock.acquire();
      const second = contend(name);
      await queued(name, 2);
      const third = lock.acquire();
      await queued(name, 3);
      const fourth = contend(name);
      await queued(name, 4);
      const { holders, waiters, warnings } = await keeper.inspect(name);
      expect([...holders, ...waiters].map(({ foreign }) => foreign)).toEqual([false, true, false, true]);
      expect([...holders, ...waiters].every(({ ttlLeftMs = 0 }) => ttlLeftMs > 0)).toBe(true);
      expect(warnings).toEqual([]);
      expect(await pending(second.granted)).toBe(true);
      expect((await lock.tryAcquire()).holder?.identity).toBeDefined();

      await first.release();
      await second.granted;
      expect(await pending(third)).toBe(true);
      expect((await lock.tryAcquire()).holder).toMatchObject({ identity: undefined });

      await second.release();
      const hold = await third;
      expect(hold.token.revision).toBeGreaterThan(first.token.revision);
      expect(await pending(fourth.granted)).toBe(true);

      await hold.release();
      await fourth.granted;
      await fourth.release();
      await queued(name, 0);
    });
  });
}
