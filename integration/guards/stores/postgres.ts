// PostgreSQL as the matrix and the benchmark see it: a row per account, a pool and a proxy per client.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { FencingToken } from '@lockkeeper/fencing';
import {
  type PostgresGuard,
  type PostgresTransaction,
  postgresGuard,
} from '@lockkeeper/resource-guard/postgres';
import { chunkContaining, type PostgresServer, startPostgres, type TcpProxy } from '@lockkeeper/testkit';
import type pg from 'pg';
import { accountAccess, Bank } from '../account.ts';
import type { Account, ClientOptions, GuardedStore, StoreClient } from './store.ts';
import { openWay, type Way } from './way.ts';

const UPDATE = 'UPDATE account SET value = $1 WHERE name = $2';

/** A PostgreSQL of our own, durable like one in production. */
export async function openPostgresStore(): Promise<GuardedStore<PostgresTransaction>> {
  const server = await startPostgres({
    own: true,
    settings: { synchronous_commit: 'on', max_connections: '300' },
  });
  try {
    return new PostgresStore(server, await Bank.open(server.url));
  } catch (error) {
    await server.stop();
    throw error;
  }
}

class PostgresStore implements GuardedStore<PostgresTransaction> {
  readonly name: string;
  readonly #server: PostgresServer;
  #bank: Bank;
  readonly #backups: string[] = [];

  constructor(server: PostgresServer, bank: Bank) {
    this.name = `PostgreSQL ${server.version}`;
    this.#server = server;
    this.#bank = bank;
  }

  async newAccount(): Promise<Account<PostgresTransaction>> {
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
    const folder = await mkdtemp(join(tmpdir(), 'lockkeeper-postgres-backup-'));
    this.#backups.push(folder);
    const copy = join(folder, 'data');
    await this.#server.kill();
    await mirror(data, copy);
    await this.#server.restart();
    await this.#reconnect();
    return async () => {
      await this.#server.kill();
      await rm(data, { recursive: true });
      await mirror(copy, data);
      await this.#server.restart();
      await this.#reconnect();
    };
  }

  async #dataDir(): Promise<string> {
    const { rows } = await this.#bank.pool.query('SHOW data_directory');
    return rows[0].data_directory;
  }

  async #reconnect(): Promise<void> {
    await this.#bank[Symbol.asyncDispose]();
    this.#bank = await Bank.open(this.#server.url);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bank[Symbol.asyncDispose]();
    await this.#server.stop();
    for (const folder of this.#backups) await rm(folder, { recursive: true, force: true });
  }
}

/** Copies a folder with its owners and modes. */
async function mirror(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}

/** One process's pool, through a proxy of its own. */
class RowClient implements StoreClient<PostgresTransaction> {
  readonly guard: PostgresGuard;
  readonly proxy: TcpProxy | undefined;
  /** The statement that writes, or the COMMIT of a run: prepared under a name that ends so. */
  readonly carriesWrite = (chunk: Buffer) => carriesUpdate(chunk) || carriesCommit(chunk);
  readonly read: StoreClient<PostgresTransaction>['read'];
  readonly write: StoreClient<PostgresTransaction>['write'];
  readonly #resource: string;
  readonly #bank: Bank;
  readonly #pool: pg.Pool;
  readonly #way: Way;

  private constructor(resource: string, bank: Bank, way: Way) {
    this.#resource = resource;
    this.#bank = bank;
    this.#way = way;
    this.proxy = way.proxy;
    this.#pool = bank.newPool({ max: 16 });
    this.guard = postgresGuard(this.#pool, { resource });
    const { read, write } = accountAccess(resource);
    this.read = read;
    this.write = write;
  }

  static async open(resource: string, server: PostgresServer, options?: ClientOptions): Promise<RowClient> {
    const way = await openWay(server.url, options);
    return new RowClient(resource, Bank.to(way.url), way);
  }

  async writeGuarded(token: FencingToken, text: string): Promise<void> {
    await this.guard.query(token, UPDATE, [text, this.#resource]);
  }

  async writePlain(text: string): Promise<void> {
    await this.#pool.query(UPDATE, [text, this.#resource]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bank[Symbol.asyncDispose]();
    await this.#way.close();
  }
}

const carriesUpdate = chunkContaining('UPDATE account');
const carriesCommit = chunkContaining('COMMIT\0');
