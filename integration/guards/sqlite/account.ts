// One file of accounts, each a text that is written only through a guard, and the guard contract's view of it.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FencingToken } from '@lockkeeper/fencing';
import type { GuardFixture, GuardSubject, HeldWrites } from '@lockkeeper/resource-guard/contract';
import { type SqliteGuard, type SqliteGuardOptions, sqliteGuard } from '@lockkeeper/resource-guard/sqlite';
import type { Database, Driver, OpenOptions } from './drivers.ts';
import { seesBusy } from './sees-busy.ts';

export type JournalMode = 'WAL' | 'DELETE';
export type Guard = SqliteGuard<Database>;

/** A database file with the guard's table, and all connections to it; closed and removed at the end. */
export class Bank implements AsyncDisposable {
  readonly path: string;
  readonly driver: Driver;
  readonly #folder: string;
  readonly #databases = new Set<Database>();
  #observer: Database;
  #accounts = 0;

  private constructor(driver: Driver, folder: string) {
    this.driver = driver;
    this.#folder = folder;
    this.path = join(folder, 'bank.db');
    this.#observer = this.open();
  }

  /** Looks on and holds the file; the guards under test have connections of their own. */
  get observer(): Database {
    return this.#observer;
  }

  static async create(driver: Driver, journalMode: JournalMode = 'WAL'): Promise<Bank> {
    const bank = new Bank(driver, await mkdtemp(join(tmpdir(), 'lockkeeper-sqlite-')));
    // What is made here need not outlive the machine.
    bank.observer.exec(`PRAGMA synchronous = OFF; PRAGMA journal_mode = ${journalMode}`);
    bank.observer.exec('CREATE TABLE account (name TEXT PRIMARY KEY, value TEXT NOT NULL)');
    await sqliteGuard(bank.observer, { resource: 'any' }).migrate();
    return bank;
  }

  open(options?: OpenOptions): Database {
    const db = this.driver.open(this.path, options);
    this.#databases.add(db);
    return db;
  }

  newAccount(): string {
    this.#accounts += 1;
    const name = `account ${this.#accounts}`;
    this.observer.prepare("INSERT INTO account VALUES (?, '')").run(name);
    return name;
  }

  guard(resource: string, options: Omit<SqliteGuardOptions, 'resource'> = {}): Guard {
    return sqliteGuard(this.open(), { resource, ...options });
  }

  peek(name: string): string {
    return read(this.observer, name);
  }

  /** Another process's write transaction, as far as SQLite can tell. */
  async holdWrites(reached: Promise<void>): Promise<HeldWrites> {
    const holder = this.open();
    holder.exec('BEGIN IMMEDIATE');
    return { reached, letGo: async () => void holder.exec('COMMIT') };
  }

  isOpen(db: Database): boolean {
    return this.#databases.has(db) && this.driver.isOpen(db);
  }

  /** As at the end of all processes that have the file open. */
  closeAll(): void {
    for (const db of this.#databases) if (this.driver.isOpen(db)) db.close();
    this.#databases.clear();
  }

  reopen(): void {
    this.#observer = this.open();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.closeAll();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

export const token = (revision: bigint): FencingToken =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
export const reader = (revision: bigint): FencingToken =>
  new FencingToken({ ...token(revision), shared: true });
export const OLD = token(1n);
export const NEW = token(2n);

export function read(db: Database, name: string): string {
  const row = db.prepare('SELECT value FROM account WHERE name = ?').get(name);
  return (row as { readonly value: string }).value;
}

export function write(db: Database, name: string, value: string): void {
  db.prepare('UPDATE account SET value = ? WHERE name = ?').run(value, name);
}

/** A case on a file of its own; `name` is an account in it. */
export function onBank(
  body: (bank: Bank, name: string) => Promise<void>,
  journalMode: JournalMode = 'WAL',
): (driver: Driver) => Promise<void> {
  return async (driver) => {
    await using bank = await Bank.create(driver, journalMode);
    await body(bank, bank.newAccount());
  };
}

/** The contract's subject: two guards with a connection each to one file. */
export function sqliteSubject(driver: Driver, journalMode: JournalMode): GuardSubject<Database> {
  return {
    name: `SQLite by ${driver.name}, ${journalMode}`,
    lacks: ['overlap'],
    open: async (): Promise<GuardFixture<Database>> => {
      const bank = await Bank.create(driver, journalMode);
      const resource = bank.newAccount();
      const watched = seesBusy(bank.open());
      return {
        guard: sqliteGuard(watched.db, { resource }),
        other: bank.guard(resource),
        value: {
          read: async (db) => read(db, resource),
          write: async (db, value) => write(db, resource, value),
          peek: async () => bank.peek(resource),
          holdWrites: () => bank.holdWrites(watched.nextBusy()),
        },
        close: () => bank[Symbol.asyncDispose](),
      };
    },
  };
}
