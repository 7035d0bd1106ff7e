// etcd as the matrix and the benchmark see it. There is no guard and no token of one's own choice: a client has a
// keeper, real holds, and a key that it writes under the comparisons of its hold.
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  type Coordinator,
  connect,
  etcdCoordinator,
  fencedTxn,
  type Hold,
  type Keeper,
  LockkeeperError,
  type Operation,
  prefixSpan,
} from '@lockkeeper/core';
import { type EtcdServer, startEtcd, type TcpProxy } from '@lockkeeper/testkit';
import type { ClientOptions } from './store.ts';
import { openWay, type Way } from './way.ts';

const TTL_MS = 20_000;

export interface EtcdStore extends AsyncDisposable {
  readonly name: string;
  newAccount(): Promise<EtcdAccount>;
  /** As of a `GuardedStore`. */
  restart(): Promise<void>;
  backup(): Promise<() => Promise<void>>;
}

export interface EtcdAccount {
  peek(): Promise<string>;
  /** Ends whoever is in the lock's queue, by revoking their leases. */
  evict(): Promise<void>;
  newClient(options?: ClientOptions): Promise<EtcdClient>;
}

export interface EtcdClient extends AsyncDisposable {
  readonly proxy: TcpProxy | undefined;
  acquire(): Promise<void>;
  release(): Promise<void>;
  /** By `fencedTxn`, which also asks the hold itself. */
  writeFenced(text: string): Promise<void>;
  /** A transaction of one's own under `hold.compare()`, which only etcd refuses: as if put together long ago. */
  writeComparing(text: string): Promise<void>;
  writePlain(text: string): Promise<void>;
}

export async function openEtcdStore(): Promise<EtcdStore> {
  const folder = await mkdtemp(join(tmpdir(), 'lockkeeper-etcd-store-'));
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  const dataDir = join(folder, 'data');
  const server = await startEtcd({ own: true, version: 'newest', dataDir }).catch(async (error) => {
    await removeFolder();
    throw error;
  });
  // An operator's own way in, past the proxies.
  const operator = etcdCoordinator({ hosts: server.endpoint });
  return {
    name: `etcd ${server.version}`,
    newAccount: async () => newAccount(server, operator),
    restart: () => server.restart(),
    backup: async () => {
      const copy = join(folder, `copy-${randomUUID()}`);
      // What the files say while nobody writes them is a whole copy.
      await server.kill();
      await mirror(dataDir, copy);
      await server.restart();
      return async () => {
        await server.kill();
        await rm(dataDir, { recursive: true });
        await mirror(copy, dataDir);
        await server.restart();
      };
    },
    [Symbol.asyncDispose]: async () => {
      await operator.close();
      await server.stop();
      await removeFolder();
    },
  };
}

/** Copies a folder with its owners and modes. */
async function mirror(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}

function newAccount(server: EtcdServer, operator: Coordinator): EtcdAccount {
  const namespace = randomUUID();
  const key = `${namespace}-text`;
  return {
    peek: async () => {
      const { kvs } = await operator.range({ key });
      return kvs[0] === undefined ? '' : new TextDecoder().decode(kvs[0].value);
    },
    evict: async () => {
      const { kvs } = await operator.range(prefixSpan(`${namespace}/lock/account/`));
      for (const lease of new Set(kvs.map((kv) => kv.lease))) {
        await operator.revoke(lease).catch((error: unknown) => {
          if (!(error instanceof LockkeeperError && error.code === 'lease-not-found')) throw error;
        });
      }
    },
    newClient: async (options) => {
      const way = await openWay(server.endpoint, options);
      try {
        return new KeyClient(await connect({ hosts: way.url, namespace, ttlMs: TTL_MS }), key, way);
      } catch (error) {
        await way.close();
        throw error;
      }
    },
  };
}

/** One process's keeper, through a proxy of its own. */
class KeyClient implements EtcdClient {
  readonly proxy: TcpProxy | undefined;
  readonly #keeper: Keeper;
  readonly #key: string;
  readonly #way: Way;
  #held: Hold | undefined;

  constructor(keeper: Keeper, key: string, way: Way) {
    this.#keeper = keeper;
    this.#key = key;
    this.#way = way;
    this.proxy = way.proxy;
  }

  async acquire(): Promise<void> {
    this.#held = await this.#keeper.lock('account').acquire({ waitTimeoutMs: 10_000 });
  }

  async release(): Promise<void> {
    await this.#hold.release();
  }

  async writeFenced(text: string): Promise<void> {
    await fencedTxn(this.#hold).put(this.#key, text).commit();
  }

  async writeComparing(text: string): Promise<void> {
    const success: Operation[] = [{ op: 'put', key: this.#key, value: text }];
    const compare = this.#hold.compare();
    const reply = await this.#keeper.coordinator.txn({ compare, success, failure: [] });
    if (!reply.succeeded) throw new LockkeeperError('lost', 'etcd refused the comparisons of the hold');
  }

  async writePlain(text: string): Promise<void> {
    const success: Operation[] = [{ op: 'put', key: this.#key, value: text }];
    await this.#keeper.coordinator.txn({ compare: [], success, failure: [] });
  }

  get #hold(): Hold {
    if (this.#held === undefined) throw new Error('acquire first');
    return this.#held;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#keeper.close();
    await this.#way.close();
  }
}
