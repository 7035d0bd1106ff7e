// Redis as the matrix and the benchmark see it: a key per account, a client of ioredis and a proxy per client.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { FencingToken } from '@lockkeeper/fencing';
import { type RedisGuard, type RedisTransaction, redisGuard } from '@lockkeeper/resource-guard/redis';
import { chunkContaining, type RedisServer, startRedis, type TcpProxy } from '@lockkeeper/testkit';
import { Redis } from 'ioredis';
import { newName } from '../redis-vault.ts';
import type { Account, GuardedStore, StoreClient } from './store.ts';
import { openWay, type Way } from './way.ts';

/** A Redis of our own that forgets nothing it answered: `appendfsync always`. */
export async function openRedisStore(): Promise<GuardedStore<RedisTransaction>> {
  return new RedisStore(await startRedis({ own: true }));
}

class RedisStore implements GuardedStore<RedisTransaction> {
  readonly name: string;
  readonly #server: RedisServer;
  readonly #admin: Redis;

  constructor(server: RedisServer) {
    this.name = `Redis ${server.version}`;
    this.#server = server;
    this.#admin = connect(server.url);
  }

  async newAccount(): Promise<Account<RedisTransaction>> {
    const resource = newName();
    const guard = redisGuard(this.#admin, { resource });
    await guard.create();
    return {
      resource,
      peek: async () => (await this.#admin.get(guard.key('text'))) ?? '',
      newClient: async (options) => new KeyClient(resource, await openWay(this.#server.url, options)),
    };
  }

  async restart(): Promise<void> {
    await this.#server.restart();
    await this.#admin.ping();
  }

  async backup(): Promise<() => Promise<void>> {
    const [, data = ''] = (await this.#admin.config('GET', 'dir')) as string[];
    const folder = await mkdtemp(join(tmpdir(), 'lockkeeper-redis-backup-'));
    const copy = join(folder, 'data');
    // What the files say while nobody writes them is a whole copy.
    await this.#server.kill();
    await mirror(data, copy);
    await this.restart();
    return async () => {
      await this.#server.kill();
      await rm(data, { recursive: true });
      await mirror(copy, data);
      await rm(folder, { recursive: true });
      await this.restart();
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#admin.disconnect();
    await this.#server.stop();
  }
}

/** Copies a folder with its owners and modes. */
async function mirror(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}

function connect(url: string): Redis {
  const client = new Redis(url, { retryStrategy: () => 20 });
  client.on('error', () => undefined);
  return client;
}

/** One process's client, through a proxy of its own. */
class KeyClient implements StoreClient<RedisTransaction> {
  readonly guard: RedisGuard;
  readonly proxy: TcpProxy | undefined;
  /** The script that carries a run out; claims and entries are the same script with another verb. */
  readonly carriesWrite = chunkContaining('\r\napply\r\n');
  readonly #client: Redis;
  readonly #key: string;
  readonly #way: Way;

  constructor(resource: string, way: Way) {
    this.#way = way;
    this.proxy = way.proxy;
    this.#client = connect(way.url);
    this.guard = redisGuard(this.#client, { resource });
    this.#key = this.guard.key('text');
  }

  async read(tx: RedisTransaction): Promise<string> {
    return (await tx.get(this.#key)) ?? '';
  }

  async write(tx: RedisTransaction, text: string): Promise<void> {
    tx.set(this.#key, text);
  }

  async writeGuarded(token: FencingToken, text: string): Promise<void> {
    await this.guard.run(token, (tx) => tx.set(this.#key, text));
  }

  async writePlain(text: string): Promise<void> {
    await this.#client.set(this.#key, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.disconnect();
    await this.#way.close();
  }
}
