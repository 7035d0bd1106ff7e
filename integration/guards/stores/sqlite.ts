// SQLite as the matrix and the benchmark see it: one file, a row per account, a connection per client. There is no
// server and no network, so no proxy.
import { copyFile, rm } from 'node:fs/promises';
import type { FencingToken, Guard, GuardAdmin } from '@lockkeeper/fencing';
import { type SqliteGuard, sqliteGuard } from '@lockkeeper/resource-guard/sqlite';
import { Bank, read, write } from '../sqlite/account.ts';
import { firstOf } from '../sqlite/case.ts';
import { type Database, findDriver, type Statement } from '../sqlite/drivers.ts';
import type { Account, GuardedStore, StoreClient } from './store.ts';

const UPDATE = 'UPDATE account SET value = ? WHERE name = ?';

/**
 * A file in WAL mode, durable like one in production, by whichever driver this process can load.
 * @throws Error where there is none, saying why of each.
 */
export async function openSqliteStore(): Promise<GuardedStore<Database>> {
  const reasons: string[] = [];
  for (const name of ['node:sqlite', 'better-sqlite3'] as const) {
    const found = findDriver(name);
    if (found.driver !== undefined) return new SqliteStore(await Bank.create(found.driver));
    reasons.push(found.why);
  }
  throw new Error(`no driver for SQLite: ${reasons.join('; ')}`);
}

class SqliteStore implements GuardedStore<Database> {
  readonly name: string;
  readonly #bank: Bank;
  readonly #clients = new Set<RowClient>();

  constructor(bank: Bank) {
    this.name = `SQLite ${firstOf(bank.observer, 'SELECT sqlite_version()')} (${bank.driver.name})`;
    this.#bank = bank;
  }

  async newAccount(): Promise<Account<Database>> {
    const resource = this.#bank.newAccount();
    return {
      resource,
      peek: async () => this.#bank.peek(resource),
      newClient: async () => {
        const client = new RowClient(resource, this.#bank);
        this.#clients.add(client);
        return client;
      },
    };
  }

  /** Every connection is closed, which ends what was in flight, and opened again. */
  async restart(): Promise<void> {
    await this.#whileClosed(async () => {});
  }

  async backup(): Promise<() => Promise<void>> {
    const { path, observer } = this.#bank;
    const copy = `${path}.copy`;
    observer.prepare('VACUUM INTO ?').run(copy);
    return () =>
      this.#whileClosed(async () => {
        for (const suffix of ['-wal', '-shm']) await rm(`${path}${suffix}`, { force: true });
        await copyFile(copy, path);
        await rm(copy);
      });
  }

  async #whileClosed(act: () => Promise<void>): Promise<void> {
    this.#bank.closeAll();
    await act();
    this.#bank.reopen();
    for (const client of this.#clients) client.reopen();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bank[Symbol.asyncDispose]();
  }
}

/** One process's connection, and the guard on it: another one each time the file was closed and opened again. */
class RowClient implements StoreClient<Database> {
  readonly guard: Guard<Database> & GuardAdmin;
  readonly #resource: string;
  readonly #bank: Bank;
  #db: Database;
  #update: Statement;
  #guard: SqliteGuard<Database>;

  constructor(resource: string, bank: Bank) {
    this.#resource = resource;
    this.#bank = bank;
    this.#db = bank.open();
    this.#update = this.#db.prepare(UPDATE);
    this.#guard = sqliteGuard(this.#db, { resource });
    this.guard = {
      resource,
      claim: (token, options) => this.#guard.claim(token, options),
      seal: (token, options) => this.#guard.seal(token, options),
      run: (token, effect, options) => this.#guard.run(token, effect, options),
      inspect: (options) => this.#guard.inspect(options),
      rebase: (token, options) => this.#guard.rebase(token, options),
    };
  }

  /** An effect in flight keeps the connection that was closed. */
  reopen(): void {
    this.#db = this.#bank.open();
    this.#update = this.#db.prepare(UPDATE);
    this.#guard = sqliteGuard(this.#db, { resource: this.#resource });
  }

  read = async (db: Database): Promise<string> => read(db, this.#resource);
  write = async (db: Database, text: string): Promise<void> => write(db, this.#resource, text);

  async writeGuarded(token: FencingToken, text: string): Promise<void> {
    await this.#guard.run(token, () => void this.#update.run(text, this.#resource));
  }

  async writePlain(text: string): Promise<void> {
    this.#update.run(text, this.#resource);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // An effect still in flight is ended by it, as by the end of the process.
    if (this.#bank.isOpen(this.#db)) this.#db.close();
  }
}
