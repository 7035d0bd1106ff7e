// The data: a list that is read, appended to and written back as a whole, so that a late write undoes what others
// wrote since it read. Rows in PostgreSQL; nothing but the lock, or the guard, orders the writers.
import type pg from 'pg';

/** What a pool and a guard's transaction have in common. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

export interface List {
  readonly number: number;
  readonly elements: readonly string[];
}

/** A longer list would make each update dearer than the last one, so a full list is followed by another one. */
const FULL = 200;

export class ListStore {
  readonly #pool: pg.Pool;
  readonly #table: string;

  /** @param name - of the contestant, which has its own. */
  constructor(pool: pg.Pool, name: string) {
    this.#pool = pool;
    this.#table = `experiment_${name}`;
  }

  async create(): Promise<void> {
    await this.#pool.query(
      `CREATE TABLE ${this.#table} (number integer PRIMARY KEY, elements text[] NOT NULL)`,
    );
  }

  /** The list that is being filled. */
  async read(): Promise<List> {
    const { rows } = await this.#pool.query<List>(
      `SELECT number, elements FROM ${this.#table} ORDER BY number DESC LIMIT 1`,
    );
    const last = rows[0] ?? { number: 1, elements: [] };
    return last.elements.length < FULL ? last : { number: last.number + 1, elements: [] };
  }

  /** Puts the whole list in its place. */
  async write({ number, elements }: List, through: Queryable = this.#pool): Promise<void> {
    await through.query(
      `INSERT INTO ${this.#table} VALUES ($1, $2) ON CONFLICT (number) DO UPDATE SET elements = excluded.elements`,
      [number, elements],
    );
  }

  /** Every element of every list. */
  async all(): Promise<readonly string[]> {
    const { rows } = await this.#pool.query<List>(`SELECT number, elements FROM ${this.#table}`);
    return rows.flatMap(({ elements }) => elements);
  }
}
