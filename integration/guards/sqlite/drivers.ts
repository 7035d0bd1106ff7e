// The drivers of SQLite that this process can load. Either may be missing: node:sqlite comes with Node 22,
// and better-sqlite3 has to be compiled.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { SqliteDatabase, SqliteStatement } from '@lockkeeper/resource-guard/sqlite';

export interface Statement extends SqliteStatement {
  // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver binds
  iterate(...parameters: any[]): Iterable<unknown>;
}

export interface Database extends SqliteDatabase {
  prepare(sql: string): Statement;
  close(): void;
}

export interface OpenOptions {
  readonly readonly?: boolean | undefined;
  /** SQLite's `busy_timeout`. Default 5,000, which is what better-sqlite3 sets. */
  readonly busyTimeoutMs?: number | undefined;
  /** Integers as `bigint`, and by node:sqlite rows as arrays. */
  readonly unusualRows?: boolean | undefined;
}

export interface Driver {
  readonly name: DriverName;
  open(path: string, options?: OpenOptions): Database;
  isOpen(db: Database): boolean;
}

export type DriverName = 'node:sqlite' | 'better-sqlite3';

export type Availability = { readonly driver: Driver } | { readonly driver: undefined; readonly why: string };

const require = createRequire(import.meta.url);

/** Loads a driver and opens a database in memory by it: a package that was not compiled loads as well. */
export function findDriver(name: DriverName): Availability {
  try {
    const driver = name === 'node:sqlite' ? nodeSqlite() : betterSqlite3();
    driver.open(':memory:').close();
    return { driver };
  } catch (error) {
    const [reason] = (error instanceof Error ? error.message : String(error)).split('\n');
    return { driver: undefined, why: `${name} cannot be loaded here (${reason})` };
  }
}

type NodeSqlite = {
  readonly DatabaseSync: new (path: string, options: object) => Database;
};

function nodeSqlite(): Driver {
  const { DatabaseSync } = require('node:sqlite') as NodeSqlite;
  return {
    name: 'node:sqlite',
    isOpen: (db) => (db as Database & { isOpen: boolean }).isOpen,
    open: (path, { readonly = false, busyTimeoutMs = 5_000, unusualRows = false } = {}) => {
      const rows = unusualRows ? { readBigInts: true, returnArrays: true } : {};
      const db = new DatabaseSync(path, { readOnly: readonly, ...rows });
      db.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
      return db;
    },
  };
}

type BetterSqlite3 = new (
  path: string,
  options: object,
) => Database & { defaultSafeIntegers(on: boolean): void };

function betterSqlite3(): Driver {
  const built = process.env['LOCKKEEPER_BETTER_SQLITE3'];
  const Constructor = require(built === undefined ? 'better-sqlite3' : join(built)) as BetterSqlite3;
  return {
    name: 'better-sqlite3',
    isOpen: (db) => (db as Database & { open: boolean }).open,
    open: (path, { readonly = false, busyTimeoutMs = 5_000, unusualRows = false } = {}) => {
      const db = new Constructor(path, { readonly, timeout: busyTimeoutMs });
      db.defaultSafeIntegers(unusualRows);
      return db;
    },
  };
}
