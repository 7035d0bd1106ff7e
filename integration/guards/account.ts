// One row that is written only through a guard, and the guard contract's view of it.
import type { Guard } from '@lockkeeper/fencing';
import type { GuardedValue, GuardFixture, HeldWrites } from '@lockkeeper/resource-guard/contract';
import { type PostgresTransaction, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import pg from 'pg';

let accounts = 0;

/** The accounts of one test file: its tables, and the connections of whoever looks on. */
export class Bank implements AsyncDisposable {
  /** Looks on and holds rows; the guards under test have pools of their own. */
  readonly pool: pg.Pool;
  readonly #url: string;
  readonly #pools: pg.Pool[] = [];

  private constructor(url: string) {
    this.#url = url;
    this.pool = this.newPool();
  }

  /** Tables that another one has opened. */
  static to(url: string): Bank {
    return new Bank(url);
  }

  static async open(url: string): Promise<Bank> {
    const bank = new Bank(url);
    await postgresGuard(bank.pool, { resource: 'any' }).migrate();
    await bank.pool.query(`
      SELECT pg_advisory_lock(7);
      CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, value text NOT NULL);
      SELECT pg_advisory_unlock(7)`);
    return bank;
  }

  newPool(options: pg.PoolConfig = {}): pg.Pool {
    const pool = new pg.Pool({ connectionString: this.#url, max: 6, ...options });
    pool.on('error', () => undefined);
    this.#pools.push(pool);
    return pool;
  }

  newClient(): pg.Client {
    const client = new pg.Client({ connectionString: this.#url });
    client.on('error', () => undefined);
    return client;
  }

  /** A name nobody used, with an empty account. */
  async newAccount(): Promise<string> {
    accounts += 1;
    const name = `account ${process.pid}-${Date.now()}-${accounts}`;
    await this.pool.query("INSERT INTO account VALUES ($1, '')", [name]);
    return name;
  }

  async peek(name: string): Promise<string> {
    const { rows } = await this.pool.query('SELECT value FROM account WHERE name = $1', [name]);
    return rows[0]?.value;
  }

  /** Holds the account's row like any other transaction would. */
  async holdWrites(name: string): Promise<HeldWrites> {
    const holder = await this.pool.connect();
    await holder.query('BEGIN');
    const { rows } = await holder.query(
      'SELECT pg_backend_pid() AS pid FROM account WHERE name = $1 FOR UPDATE',
      [name],
    );
    return {
      reached: this.blockedBy(rows[0].pid),
      letGo: async () => {
        await holder.query('COMMIT');
        holder.release();
      },
    };
  }

  /** Resolves when somebody waits for a lock that the backend `pid` holds. */
  async blockedBy(pid: number): Promise<void> {
    await this.until('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [pid]);
  }

  /** Resolves when `query` gives a row. */
  async until(query: string, values: unknown[]): Promise<void> {
    for (;;) {
      const { rowCount } = await this.pool.query(query, values);
      if (rowCount !== 0) return;
    }
  }

  /** The contract's fixture for guards that write by `handle`. */
  fixture<Handle>(
    name: string,
    guards: { readonly guard: Guard<Handle>; readonly other: Guard<Handle> },
    access: Pick<GuardedValue<Handle>, 'read' | 'write'>,
    close: () => Promise<void>,
  ): GuardFixture<Handle> {
    const value = { ...access, peek: () => this.peek(name), holdWrites: () => this.holdWrites(name) };
    return { ...guards, value, close };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#pools.map((pool) => (pool.ended || pool.ending ? undefined : pool.end())));
  }
}

/** Reads and writes an account by plain SQL in the guard's transaction. */
export function accountAccess(name: string): Pick<GuardedValue<PostgresTransaction>, 'read' | 'write'> {
  return {
    read: async (tx) => {
      const { rows } = await tx.query<{ value: string }>('SELECT value FROM account WHERE name = $1', [name]);
      return rows[0]?.value ?? '';
    },
    write: async (tx, value) => {
      await tx.query('UPDATE account SET value = $1 WHERE name = $2', [value, name]);
    },
  };
}
