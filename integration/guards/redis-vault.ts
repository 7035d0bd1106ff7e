// Texts in Redis that are written only through a guard, one key per account, over clients of either driver.
import type { GuardedValue, GuardFixture, HeldWrites } from '@lockkeeper/resource-guard/contract';
import {
  type RedisClient,
  type RedisGuard,
  type RedisGuardOptions,
  type RedisTransaction,
  redisGuard,
} from '@lockkeeper/resource-guard/redis';
import { type RedisServer, startRedis } from '@lockkeeper/testkit';
import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { createClient, createCluster } from 'redis';

let accounts = 0;

/** A name nobody used. */
export function newName(): string {
  accounts += 1;
  return `account ${process.pid}-${accounts}`;
}

/** One server, whoever looks on, and every client that was opened on it. */
export class Vault implements AsyncDisposable {
  readonly server: RedisServer;
  /** Looks on, past every guard. */
  readonly admin: Redis;
  readonly #closes: (() => unknown)[] = [];

  private constructor(server: RedisServer) {
    this.server = server;
    this.admin = this.ioredis();
  }

  static async open(settings: Record<string, string> = {}): Promise<Vault> {
    return new Vault(await startRedis({ settings }));
  }

  /** A cluster of one node that has all slots. */
  static async openCluster(): Promise<Vault> {
    const vault = await Vault.open({ 'cluster-enabled': 'yes', 'cluster-announce-ip': '127.0.0.1' });
    await vault.admin.call('CLUSTER', ['ADDSLOTSRANGE', '0', '16383']);
    await until(async () => /cluster_state:ok/.test(`${await vault.admin.call('CLUSTER', ['INFO'])}`));
    return vault;
  }

  ioredis(options: RedisOptions = {}, url: string = this.server.url): Redis {
    const client = new Redis(url, options);
    client.on('error', () => undefined);
    this.#closes.push(() => client.disconnect());
    return client;
  }

  async nodeRedis(url: string = this.server.url, options: object = {}) {
    const client = createClient({ url, ...options });
    client.on('error', () => undefined);
    await client.connect();
    this.#closes.push(() => client.isOpen && client.destroy());
    return client;
  }

  ioredisCluster(options: ClusterOptions = {}): Cluster {
    const { host, port } = this.server;
    const cluster = new Cluster([{ host, port }], options);
    cluster.on('error', () => undefined);
    this.#closes.push(() => cluster.disconnect());
    return cluster;
  }

  async nodeRedisCluster() {
    const cluster = createCluster({ rootNodes: [{ url: this.server.url }] });
    cluster.on('error', () => undefined);
    await cluster.connect();
    this.#closes.push(() => cluster.destroy());
    return cluster;
  }

  /** A fresh resource over two clients, with an empty text. */
  async fixture(
    clients: readonly [RedisClient, RedisClient],
    options: Partial<RedisGuardOptions> = {},
  ): Promise<GuardFixture<RedisTransaction> & { guard: RedisGuard; other: RedisGuard }> {
    const resource = newName();
    const [guard, other] = clients.map((client) => redisGuard(client, { resource, ...options })) as [
      RedisGuard,
      RedisGuard,
    ];
    await guard.create();
    return { guard, other, value: this.value(guard.key('text')) };
  }

  value(key: string): GuardedValue<RedisTransaction> {
    return {
      read: async (tx) => (await tx.get(key)) ?? '',
      write: async (tx, text) => {
        tx.set(key, text);
      },
      peek: async () => (await this.admin.get(key)) ?? '',
      holdWrites: () => this.#holdWrites(),
    };
  }

  /** The server keeps every write waiting, in the order in which they came. */
  async #holdWrites(): Promise<HeldWrites> {
    await this.admin.call('CLIENT', ['PAUSE', '20000', 'WRITE']);
    let over = false;
    const waits = async () => over || / flags=\w*b\w* .* cmd=eval/.test(`${await this.admin.client('LIST')}`);
    return {
      reached: until(waits),
      letGo: async () => {
        over = true;
        await this.admin.call('CLIENT', ['UNPAUSE']);
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const close of this.#closes) close();
    await this.server.stop();
  }
}

/** Asks until the answer is yes; the test's own time limit ends it. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo()));
}
