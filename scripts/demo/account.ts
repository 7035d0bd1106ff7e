// The account that both workers add to: a row that is read, computed on and written back as a whole.
import type { Guard } from '@lockkeeper/fencing';

export interface AccountState {
  readonly balance: number;
  /** Which entries the balance contains, written with it. */
  readonly entries: readonly string[];
}

/** An account somewhere. A write replaces the whole state: it is right only if nobody wrote since the read. */
export interface Account<Handle> {
  read(): Promise<AccountState>;
  write(next: AccountState, through: Handle): Promise<void>;
  /** What a write without a guard goes through. */
  readonly direct: Handle;
  /** Checks the token in one step with the write. */
  readonly guard: Guard<Handle> | undefined;
}

export const OPENING: AccountState = { balance: 100, entries: [] };

/** What a guard's transaction and a `pg` pool have in common. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

/** The accounts of the demo in PostgreSQL, in a schema of their own. */
export class AccountTable {
  readonly #db: Queryable;
  readonly #table: string;

  constructor(db: Queryable, schema: string) {
    this.#db = db;
    this.#table = `"${schema}".accounts`;
  }

  async create(): Promise<void> {
    await this.#db.query(
      `CREATE TABLE ${this.#table} (name text PRIMARY KEY, balance integer NOT NULL, entries text[] NOT NULL)`,
    );
  }

  async open(name: string): Promise<void> {
    const values = [name, OPENING.balance, OPENING.entries];
    await this.#db.query(`INSERT INTO ${this.#table} VALUES ($1, $2, $3)`, values);
  }

  account(name: string, guard: Guard<Queryable> | undefined): Account<Queryable> {
    return {
      direct: this.#db,
      guard,
      read: async () => {
        const { rows } = await this.#db.query(`SELECT balance, entries FROM ${this.#table} WHERE name = $1`, [
          name,
        ]);
        return rows[0] as AccountState;
      },
      write: async ({ balance, entries }, through) => {
        const values = [name, balance, entries];
        await through.query(`UPDATE ${this.#table} SET balance = $2, entries = $3 WHERE name = $1`, values);
      },
    };
  }
}
