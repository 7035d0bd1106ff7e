// A guarded HTTP service as the matrix and the benchmark see it. It keeps nothing itself: its guard and its rows are
// in a PostgreSQL of its own, so a restart ends listener, connections and database, and both come back.
import type { FencingToken, Guard, GuardAdmin } from '@lockkeeper/fencing';
import { type Fetch, fencedFetch, httpGuard } from '@lockkeeper/resource-guard/http';
import {
  type ChunkMatcher,
  chunkContaining,
  type PostgresServer,
  startPostgres,
  type TcpProxy,
} from '@lockkeeper/testkit';
import { Bank } from '../account.ts';
import { type AccountService, accountOverHttp, body, startAccountService } from '../http-service.ts';
import type { Account, GuardedStore, StoreClient } from './store.ts';
import { openWay, type Way } from './way.ts';

export async function openHttpStore(): Promise<GuardedStore<Fetch>> {
  const server = await startPostgres({ own: true, settings: { synchronous_commit: 'on' } });
  try {
    return new HttpStore(server, await Premises.open(server.url, 0));
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** One life of the service, with its connections to the database. */
class Premises implements AsyncDisposable {
  readonly bank: Bank;
  readonly service: AccountService;

  private constructor(bank: Bank, service: AccountService) {
    this.bank = bank;
    this.service = service;
  }

  static async open(url: string, port: number): Promise<Premises> {
    const bank = await Bank.open(url);
    return new Premises(bank, await startAccountService(bank.newPool({ max: 16 }), port));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]();
    await this.bank[Symbol.asyncDispose]();
  }
}

const TABLES = ['lockkeeper_guards', 'account'];

class HttpStore implements GuardedStore<Fetch> {
  readonly name: string;
  readonly #server: PostgresServer;
  #premises: Premises;

  constructor(server: PostgresServer, premises: Premises) {
    this.name = `HTTP (over PostgreSQL ${server.version})`;
    this.#server = server;
    this.#premises = premises;
  }

  async newAccount(): Promise<Account<Fetch>> {
    const resource = await this.#premises.bank.newAccount();
    return {
      resource,
      peek: () => this.#premises.bank.peek(resource),
      newClient: async (options) =>
        new HttpClient(resource, await openWay(this.#premises.service.url, options)),
    };
  }

  async restart(): Promise<void> {
    const { port } = this.#premises.service;
    await this.#premises[Symbol.asyncDispose]();
    await this.#server.restart();
    this.#premises = await Premises.open(this.#server.url, port);
  }

  /** A logical copy, as `pg_dump` makes one: the rows of the guards and of the accounts. */
  async backup(): Promise<() => Promise<void>> {
    const rows = new Map<string, string>();
    for (const table of TABLES) {
      const all = `SELECT coalesce(json_agg(t), '[]')::text AS rows FROM public.${table} t`;
      rows.set(table, (await this.#premises.bank.pool.query(all)).rows[0].rows);
    }
    return async () => {
      await this.restart();
      for (const [table, kept] of rows) {
        await this.#premises.bank.pool.query(`TRUNCATE public.${table}`);
        const insert = `INSERT INTO public.${table} SELECT * FROM json_populate_recordset(NULL::public.${table}, $1)`;
        await this.#premises.bank.pool.query(insert, [kept]);
      }
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#premises[Symbol.asyncDispose]();
    await this.#server.stop();
  }
}

/** One process's way to the service: Node's `fetch` keeps connections per address, so they are this client's own. */
class HttpClient implements StoreClient<Fetch> {
  readonly guard: Guard<Fetch> & GuardAdmin;
  readonly proxy: TcpProxy | undefined;
  readonly carriesWrite: ChunkMatcher;
  readonly read = accountOverHttp.read;
  readonly write = accountOverHttp.write;
  readonly #base: URL;
  readonly #way: Way;

  constructor(resource: string, way: Way) {
    this.#way = way;
    this.proxy = way.proxy;
    this.#base = new URL(`${encodeURIComponent(resource)}/`, way.url);
    this.guard = httpGuard(this.#base, { resource });
    this.carriesWrite = chunkContaining(`PUT ${this.#base.pathname}text`);
  }

  /** One request, which the service checks: there is nothing to ask before. */
  async writeGuarded(token: FencingToken, text: string): Promise<void> {
    await accountOverHttp.write(fencedFetch(token, { baseUrl: this.#base }), text);
  }

  async writePlain(text: string): Promise<void> {
    await body(await fetch(new URL('plain', this.#base), { method: 'PUT', body: text }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#way.close();
  }
}
