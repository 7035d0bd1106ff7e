// Every statement the guard sends. Revisions are 64-bit integers in SQLite and leave it as text.
import type { GuardState } from '@lockkeeper/fencing';
import { invalid } from '../options.ts';
import { columnsOf } from '../stored-columns.ts';
import { parseStoredState } from '../stored-state.ts';
import { firstColumn } from './database.ts';

export interface GuardTable {
  /**
   * The database file that keeps the guard's table: `main`, the default, or the name of an ATTACHed one. It
   * has to be the file that the effects write: several files are not one atomic step in WAL mode.
   */
  readonly schema?: string | undefined;
  /** Default `lockkeeper_guards`. One table serves any number of resources. */
  readonly table?: string | undefined;
}

/** A savepoint that is there as long as the transaction that the guard opened, and in no other. */
const MARK = '"@lockkeeper/resource-guard run"';

export const BEGIN = 'BEGIN IMMEDIATE';
export const COMMIT = 'COMMIT';
export const ROLLBACK = 'ROLLBACK';
export const SET_MARK = `SAVEPOINT ${MARK}`;
/** Fails where the effect ended the transaction: COMMIT and ROLLBACK end all its savepoints. */
export const CHECK_MARK = `RELEASE ${MARK}`;

export interface GuardSql {
  /** `"schema"."table"`, quoted. */
  readonly table: string;
  readonly schema: string;
  readonly create: string;
  /** By resource: one row with one text column, or none. */
  readonly read: string;
  /** Binds {@link storeParameters}. */
  readonly store: string;
  /** Takes the write lock and writes nothing. */
  readonly lock: string;
}

export function guardSql(options: GuardTable): GuardSql {
  const schema = quote(checkIdentifier('schema', options.schema ?? 'main'));
  const table = `${schema}.${quote(checkIdentifier('table', options.table ?? 'lockkeeper_guards'))}`;
  return {
    table,
    schema,
    create: `CREATE TABLE IF NOT EXISTS ${table} (
  resource           TEXT    NOT NULL PRIMARY KEY,
  lineage            TEXT    NOT NULL,
  revision           INTEGER NOT NULL CHECK (typeof(revision) = 'integer' AND revision > 0),
  acquisition        TEXT    NOT NULL,
  shared             INTEGER NOT NULL CHECK (shared IN (0, 1)),
  sealed             INTEGER NOT NULL CHECK (sealed IN (0, 1)),
  writer_revision    INTEGER          CHECK (typeof(writer_revision) IN ('integer', 'null')),
  writer_acquisition TEXT,
  writer_sealed      INTEGER          CHECK (writer_sealed IN (0, 1)),
  updated_at         TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID`,
    read: `SELECT lineage || ':' || revision || ':' || acquisition || CASE WHEN shared THEN ':shared ' ELSE ' ' END || sealed
  || coalesce(' ' || lineage || ':' || writer_revision || ':' || writer_acquisition || ' ' || writer_sealed, '') AS state
FROM ${table} WHERE resource = ?`,
    store: `INSERT INTO ${table} (resource, lineage, revision, acquisition, shared, sealed, writer_revision, writer_acquisition, writer_sealed)
VALUES (?, ?, CAST(? AS INTEGER), ?, ?, ?, CAST(? AS INTEGER), ?, ?)
ON CONFLICT (resource) DO UPDATE SET lineage = excluded.lineage, revision = excluded.revision,
  acquisition = excluded.acquisition, shared = excluded.shared, sealed = excluded.sealed,
  writer_revision = excluded.writer_revision, writer_acquisition = excluded.writer_acquisition,
  writer_sealed = excluded.writer_sealed, updated_at = CURRENT_TIMESTAMP`,
    lock: `DELETE FROM ${table} WHERE 0`,
  };
}

/** What `store` binds: revisions as text, flags as 0 or 1. */
export function storeParameters(resource: string, next: GuardState): unknown[] {
  const bound = Object.values(columnsOf(next)).map((value) => {
    if (typeof value === 'bigint') return `${value}`;
    return typeof value === 'boolean' ? Number(value) : value;
  });
  return [resource, ...bound];
}

/** Reads the row of `read`. */
export function parseState(resource: string, row: unknown): GuardState | undefined {
  return row === undefined || row === null ? undefined : parseStoredState(resource, firstColumn(row));
}

function checkIdentifier(field: string, value: unknown): string {
  if (typeof value === 'string' && value !== '' && !/\0|\p{Surrogate}/u.test(value)) return value;
  throw invalid(field, value, 'expected the name of a database object');
}

function quote(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}
