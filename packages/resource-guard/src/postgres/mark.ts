import { randomUUID } from 'node:crypto';
import { sqlState } from './errors.ts';
import { ownStatement, type Statement } from './pipeline.ts';

/** Any name with a dot is a setting that PostgreSQL lets everybody make. */
export const markSetting = 'lockkeeper.run';

/**
 * What one transaction has and no other: a setting with a random value that ends with it. PostgreSQL itself
 * drops it at COMMIT and ROLLBACK, with or without AND CHAIN, and keeps it over ROLLBACK TO a savepoint.
 */
export class Mark {
  readonly value = randomUUID();

  /** Fails in every other transaction, and with it what follows in the same message. */
  get check(): Statement {
    return { ...CHECK, values: [this.value] };
  }

  /** The check and the COMMIT that it stands before. */
  get checkAndCommit(): readonly Statement[] {
    return [this.check, COMMIT];
  }

  /** Whether `error` is that failure. */
  isMissing(error: unknown): boolean {
    return sqlState(error) === '22P02' && (error as Error).message.includes(`not ${this.value}`);
  }
}

// A cast fails without a function of ours in the database, and its error repeats the text.
const CHECK = ownStatement(
  'mark',
  `SELECT (CASE current_setting('${markSetting}', true) WHEN $1 THEN '1' ELSE 'not ' || $1 END)::int`,
);
const COMMIT = ownStatement('COMMIT', 'COMMIT');
