import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Keeper } from '@lockkeeper/core';
import { availableEtcdVersions, type EtcdServer, startEtcd } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Another program that stands for election: it says when it leads, and steps down. */
interface Candidate {
  readonly elected: Promise<unknown>;
  resign(): Promise<unknown>;
}

for (const version of await availableEtcdVersions()) {
  describe(`elections on etcd ${version} interoperate`, () => {
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

    /** `etcdctl elect` prints its key and value once it leads, and resigns when it is told to end. */
    function etcdctlElect(name: string, value: string): Candidate {
      const child = etcd.spawnCtl(['elect', `${namespace}/election/${name}`, value]);
      const exited = once(child, 'exit');
      return {
        elected: once(child.stdout, 'data'),
        resign: () => {
          child.kill('SIGINT');
          return exited;
        },
      };
    }

    async function call<T>(path: string, body: object): Promise<T> {
      const reply = await fetch(`${etcd.endpoint}/v3/${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
      });
      if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
      return (await reply.json()) as T;
    }
    const base64 = (text: string) => Buffer.from(text).toString('base64');

    /** The election service that the server itself offers, through its JSON gateway. */
    function v3Election(name: string, value: string): Candidate {
      const elected = call<{ ID: string }>('lease/grant', { TTL: '60' }).then(({ ID }) =>
        call<{ leader: object }>('election/campaign', {
          name: base64(`${namespace}/election/${name}`),
          lease: ID,
          value: base64(value),
        }),
      );
      return { elected, resign: async () => call('election/resign', { leader: (await elected).leader }) };
    }

    /** Whom the others take for the leader. */
    async function leaderForOthers(name: string): Promise<string> {
      const request = { name: base64(`${namespace}/election/${name}`) };
      const { kv } = await call<{ kv: { value: string } }>('election/leader', request);
      return Buffer.from(kv.value, 'base64').toString();
    }

    async function candidates(name: string, count: number): Promise<void> {
      const root = `${namespace}/election/${name}`;
      const span = { key: `${root}/`, rangeEnd: `${root}0` };
      while ((await keeper.coordinator.range(span)).count !== count) await sleep(10);
    }

    /** Whether it is still pending after everything that was under way has had its time. */
    async function pending(promise: Promise<unknown>): Promise<boolean> {
      return (await Promise.race([promise.then(() => 'settled'), sleep(300, 'pending')])) === 'pending';
    }

    it.each([
      ['etcdctl elect', etcdctlElect],
      ["the server's v3election service", v3Election],
    ])('%s and our candidates lead in turn, and each sees the other', async (what, stand) => {
      const name = what.replace(/\W/g, '');
      const election = keeper.election(name);
      const first = await election.campaign({ value: 'first' });
      const second = stand(name, 'second');
      await candidates(name, 2);
      const third = election.campaign({ value: 'third' });
      await candidates(name, 3);
      const fourth = stand(name, 'fourth');
      await candidates(name, 4);
      expect(await pending(second.elected)).toBe(true);
      await first.proclaim('first, again');
      expect(await leaderForOthers(name)).toBe('first, again');

      await first.resign();
      await second.elected;
      expect(await pending(third)).toBe(true);
      expect(await election.leader()).toMatchObject({ value: 'second' });

      await second.resign();
      const term = await third;
      expect(term.token.revision).toBeGreaterThan(first.token.revision);
      expect(await leaderForOthers(name)).toBe('third');
      expect(await pending(fourth.elected)).toBe(true);

      await term.resign();
      await fourth.elected;
      await fourth.resign();
      await candidates(name, 0);
      expect(await election.leader()).toBeUndefined();
    });
  });
}
