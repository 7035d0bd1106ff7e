import type { SqliteDatabase } from './database.ts';
import { firstColumn } from './database.ts';

/** `synchronous` that survives a loss of power in every journal mode. */
const EXTRA = 3;

/** What a transaction needs of the connection's settings. */
export interface Needs {
  /** Wait for locks as the caller told SQLite to, which blocks the whole process; else not at all. */
  readonly patient?: boolean | undefined;
  /** The schema whose file is synchronised before COMMIT returns, whatever the caller chose. */
  readonly durable?: string | undefined;
}

/** Changes settings of the connection; the function that it gives puts the caller's back. */
export function applySettings(db: SqliteDatabase, { patient, durable }: Needs): () => void {
  const changed: string[] = [];
  const change = (pragma: string, value: number, isEnough: (now: number) => boolean) => {
    // Not from a statement prepared earlier: SQLite reads a setting when it compiles the statement.
    const now = Number(firstColumn(db.prepare(`PRAGMA ${pragma}`).get()));
    if (isEnough(now)) return;
    db.exec(`PRAGMA ${pragma} = ${value}`);
    changed.push(`PRAGMA ${pragma} = ${now}`);
  };
  const restore = () => {
    for (const pragma of changed) db.exec(pragma);
  };
  try {
    if (patient !== true) change('busy_timeout', 0, (now) => now === 0);
    if (durable !== undefined) change(`${durable}.synchronous`, EXTRA, (now) => now >= EXTRA);
  } catch (error) {
    restore();
    throw error;
  }
  return restore;
}
