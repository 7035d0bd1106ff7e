// Every server in a container of its own: the same verbs as elsewhere, and one address for all of its life (I1).
import { connect } from '@lockkeeper/core';
import { startEtcd, startEtcdCluster, startMariadb, startPostgres, startRedis } from '@lockkeeper/testkit';
import { Redis } from 'ioredis';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { describe, expect, it } from 'vitest';

interface Ended {
  end(): Promise<unknown>;
}

/** One value in a server, over connections that do not outlive what is done to it. */
interface Store {
  write(value: string): Promise<unknown>;
  /** `undefined` where nothing was ever written. */
  read(): Promise<string | undefined>;
}

async function briefly<Client extends Ended, T>(
  client: Client,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

async function etcdStore() {
  const server = await startEtcd();
  const store: Store = {
    write: (value) => server.ctl(['put', 'x', value]),
    read: async () => (await server.ctl(['get', 'x', '--print-value-only'])).trim() || undefined,
  };
  return { server, store, address: () => server.endpoint };
}

async function postgresStore() {
  const server = await startPostgres();
  const query = async (sql: string) => {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    return briefly(client, (open) => open.query(sql));
  };
  const store: Store = {
    write: (value) => query(`CREATE TABLE IF NOT EXISTS x (v text); INSERT INTO x VALUES ('${value}')`),
    read: async () => {
      const { rows } = await query("SELECT to_regclass('x') AS there");
      return rows[0].there === null ? undefined : (await query('SELECT v FROM x')).rows[0].v;
    },
  };
  return { server, store, address: () => server.url };
}

async function redisStore() {
  const server = await startRedis();
  const ask = <T>(work: (client: Redis) => Promise<T>) => {
    const client = new Redis(server.url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
    // What befalls it is told by its commands.
    client.on('error', () => undefined);
    return briefly({ end: async () => client.disconnect() }, () => work(client));
  };
  const store: Store = {
    write: (value) => ask((client) => client.set('x', value)),
    read: async () => (await ask((client) => client.get('x'))) ?? undefined,
  };
  return { server, store, address: () => server.url };
}

async function mariadbStore() {
  const server = await startMariadb();
  const query = async (sql: string) =>
    briefly(await mysql.createConnection(server.url), async (client) => (await client.query(sql))[0]);
  const store: Store = {
    write: async (value) => {
      await query('CREATE TABLE IF NOT EXISTS x (v varchar(9))');
      await query(`INSERT INTO x VALUES ('${value}')`);
    },
    read: async () => {
      const tables = (await query("SHOW TABLES LIKE 'x'")) as unknown[];
      return tables.length === 0 ? undefined : ((await query('SELECT v FROM x')) as { v: string }[])[0]?.v;
    },
  };
  return { server, store, address: () => server.url };
}

describe('in a container', { timeout: 90_000 }, () => {
  it.each([
    ['etcd', etcdStore],
    ['PostgreSQL', postgresStore],
    ['Redis', redisStore],
    ['MariaDB', mariadbStore],
  ])('%s keeps its address, and its data unless they are wiped', async (_, open) => {
    const { server, store, address } = await open();
    await using _server = server;
    const started = { pid: server.pid, address: address() };
    expect(server.route).toBe('container');
    expect(started.pid).toBeGreaterThan(0);
    await store.write('7');

    await server.pause();
    const reading = store.read();
    const silence = new Promise((resolve) => setTimeout(resolve, 200, 'silence'));
    expect(await Promise.race([reading, silence])).toBe('silence');
    server.resume();
    expect(await reading).toBe('7');

    await server.pause();
    await server.kill();
    expect(server.pid).toBeUndefined();
    await expect(store.read()).rejects.toThrow();
    await server.restart();
    expect(server.pid).not.toBe(started.pid);
    expect(await store.read()).toBe('7');
    await server.restart({ wipe: true });
    expect(await store.read()).toBeUndefined();
    expect(address()).toBe(started.address);
    await server.stop();
    await expect(server.restart()).rejects.toMatchObject({ code: 'not-running' });
  });

  it('a cluster of three goes on with a member paused, and takes back one that lost its data', async () => {
    await using cluster = await startEtcdCluster();
    const endpoints = [...cluster.endpoints];
    await using keeper = await connect({ hosts: endpoints, ttlMs: 4_000 });
    const acquire = () =>
      keeper.lock('x').using({ waitTimeoutMs: 20_000 }, async (hold) => hold.token.revision);
    const first = await acquire();
    const leader = await cluster.leader();
    await leader.pause();
    const second = await acquire();
    expect(second).toBeGreaterThan(first);
    leader.resume();
    const [member] = await cluster.followers();
    await member?.restart({ wipe: true });
    await cluster.restart();
    expect(cluster.endpoints).toEqual(endpoints);
    expect(await acquire()).toBeGreaterThan(second);
  });
});
