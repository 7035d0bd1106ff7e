import { randomUUID } from 'node:crypto';
import { sqlState } from './errors.ts';

/** Any name with a dot is a setting that PostgreSQL lets everybody make. */
const SETTING = 'lockkeeper.run';

/**
 * What one transaction has and no other: a setting with a random value that ends with it. PostgreSQL itself
 * drops it at COMMIT and ROLLBACK, with or without AND CHAIN, and keeps it over ROLLBACK TO a savepoint.
 */
export class Mark {
  readonly #value = randomUUID();

  /** Marks the open transaction. */
  get set(): string {
    return `SET LOCAL ${SETTING} = '${this.#value}'`;
  }

  /** Fails in every other transaction, and with it what follows in the same message. */
  get check(): string {
    // A cast fails without a function of ours in the database, and its error repeats the text.
    return `SELECT (CASE current_setting('${SETTING}', true) WHEN '${this.#value}' THEN '1' ELSE 'not ${this.#value}' END)::int`;
  }

  /** Whether `error` is that failure. */
  isMissing(error: unknown): boolean {
    return sqlState(error) === '22P02' && (error as Error).message.includes(`not ${this.#value}`);
  }
}
