// MariaDB as the matrix and the benchmark see it: a row per account, a pool and a proxy per client.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { FencingToken } from '@lockkeeper/fencing';
import { type MysqlGuard, type MysqlTransaction, mysqlGuard } from '@lockkeeper/resource-guard/mysql';
import { chunkContaining, type MariadbServer, startMariadb, type TcpProxy } from '@lockkeeper/testkit';
import type { Pool, RowDataPacket } from 'mysql2/promise';
import { MysqlBank, rowAccess, UPDATE_ACCOUNT } from '../mysql-bank.ts';
import type { Account, ClientOptions, GuardedStore, StoreClient } from './store.ts';
import { openWay, type Way } from './way.ts';

/** A MariaDB of our own, durable like one in production: each commit is flushed. */
export async function openMysqlStore(): Promise<GuardedStore<MysqlTransaction>> {
  const server = await startMariadb({ own: true, settings: { 'max-connections': '300' } });
  try {
    return new MysqlStore(server, await MysqlBank.open(server.url));
  } catch (error) {
    await server.stop();
    throw error;
  }
}

class MysqlStore implements GuardedStore<MysqlTransaction> {
  readonly name: string;
  readonly #server: MariadbServer;
  #bank: MysqlBank;

  constructor(server: MariadbServer, bank: MysqlBank) {
    this.name = `MariaDB ${server.version}`;
    this.#server = server;
    this.#bank = bank;
  }

  async newAccount(): Promise<Account<MysqlTransaction>> {
    const resource = await this.#bank.newAccount();
    return {
      resource,
      peek: () => this.#bank.peek(resource),
      newClient: (options) => RowClient.open(resource, this.#server, options),
    };
  }

  async restart(): Promise<void> {
    await this.#server.restart();
    await this.#reconnect();
  }

  async backup(): Promise<() => Promise<void>> {
    // What the files say while nobody writes them is a whole copy.
    const data = await this.#dataDir();
    const folder = await mkdtemp(join(tmpdir(), 'lockkeeper-mariadb-backup-'));
    const copy = join(folder, 'data');
    await this.#server.kill();
    await mirror(data, copy);
    await this.#server.restart();
    await this.#reconnect();
    return async () => {
      await this.#server.kill();
      await rm(data, { recursive: true });
      await mirror(copy, data);
      await rm(folder, { recursive: true });
      await this.#server.restart();
      await this.#reconnect();
    };
  }

  async #dataDir(): Promise<string> {
    const [rows] = await this.#bank.pool.query<RowDataPacket[]>('SELECT @@datadir AS data');
    return String(rows[0]?.['data']).replace(/\/$/, '');
  }

  async #reconnect(): Promise<void> {
    await this.#bank[Symbol.asyncDispose]();
    this.#bank = await MysqlBank.open(this.#server.url);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bank[Symbol.asyncDispose]();
    await this.#server.stop();
  }
}

/** Copies a folder with its owners and modes. */
async function mirror(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}

/** One process's pool, through a proxy of its own. */
class RowClient implements StoreClient<MysqlTransaction> {
  readonly guard: MysqlGuard;
  readonly proxy: TcpProxy | undefined;
  /** The statement that writes, the COMMIT of a run, or the one message that is both. */
  readonly carriesWrite = (chunk: Buffer) => WRITES.some((matches) => matches(chunk));
  readonly read: StoreClient<MysqlTransaction>['read'];
  readonly write: StoreClient<MysqlTransaction>['write'];
  readonly #resource: string;
  readonly #bank: MysqlBank;
  readonly #pool: Pool;
  readonly #way: Way;

  private constructor(resource: string, bank: MysqlBank, way: Way) {
    this.#resource = resource;
    this.#bank = bank;
    this.#way = way;
    this.proxy = way.proxy;
    this.#pool = bank.newPool({ connectionLimit: 16 });
    this.guard = mysqlGuard(this.#pool, { resource });
    const { read, write } = rowAccess(resource);
    this.read = read;
    this.write = write;
  }

  static async open(resource: string, server: MariadbServer, options?: ClientOptions): Promise<RowClient> {
    const way = await openWay(server.url, options);
    return new RowClient(resource, MysqlBank.to(way.url), way);
  }

  async writeGuarded(token: FencingToken, text: string): Promise<void> {
    await this.guard.query(token, UPDATE_ACCOUNT, [text, this.#resource]);
  }

  async writePlain(text: string): Promise<void> {
    await this.#pool.query(UPDATE_ACCOUNT, [text, this.#resource]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bank[Symbol.asyncDispose]();
    await this.#way.close();
  }
}

const WRITES = ['UPDATE account', 'COMMIT; END', 'EXECUTE IMMEDIATE'].map((text) => chunkContaining(text));
