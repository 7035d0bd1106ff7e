// Every statement the guard sends. Values are literals in plain ASCII, so that several statements can leave
// together in one message of the simple protocol (one round trip, still statements of their own).
import { createHash } from 'node:crypto';
import { FencingToken, type GuardState } from '@lockkeeper/fencing';
import { invalid } from '../options.ts';
import type { Mark } from './mark.ts';

export interface GuardTable {
  /** Default `public`. Named outright, so that no `search_path` can split one guard in two. */
  readonly schema?: string | undefined;
  /** Default `lockkeeper_guards`. One table serves any number of resources. */
  readonly table?: string | undefined;
}

/** `"schema"."table"`, quoted. */
export function tableName(options: GuardTable): string {
  const schema = checkIdentifier('schema', options.schema ?? 'public');
  return `${quote(schema)}.${quote(checkIdentifier('table', options.table ?? 'lockkeeper_guards'))}`;
}

/**
 * A 64-bit advisory lock key. Clients of every version have to wait in the same queue, so it never changes.
 * PostgreSQL keeps these keys per database, together with the application's own; two that collide cost
 * waiting, nothing else.
 */
function advisoryKey(...parts: string[]): bigint {
  const hash = createHash('sha256').update(JSON.stringify(['@lockkeeper/resource-guard', ...parts]));
  return hash.digest().readBigInt64BE();
}

function checkIdentifier(field: string, value: unknown): string {
  const fits = typeof value === 'string' && value !== '' && !/\0|\p{Surrogate}/u.test(value);
  // PostgreSQL cuts longer names silently, which could make two of them one.
  if (fits && Buffer.byteLength(value) <= 63) return value;
  throw invalid(field, value, 'expected a PostgreSQL name of 1 to 63 bytes');
}

function quote(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

/** An ASCII literal that means the same under every client encoding and string setting. */
export function literal(text: string): string {
  const escaped = Array.from(text, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code >= 0x20 && code < 0x7f && character !== "'" && character !== '\\') return character;
    return code <= 0xffff ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
  });
  return `E'${escaped.join('')}'`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}

/** The table, for those who keep migrations of their own. Running it again does nothing. */
export function createTable(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${table} (
  resource    text        PRIMARY KEY,
  lineage     text        NOT NULL,
  revision    bigint      NOT NULL CHECK (revision > 0),
  acquisition text        NOT NULL,
  sealed      boolean     NOT NULL,
  updated_at  timestamptz NOT NULL DEFAULT now()
);
`;
}

/** Two processes may migrate at once; and a role that may not create tables may ask whether there is one. */
export function migration(table: string): readonly string[] {
  return [
    'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
    `SELECT pg_advisory_xact_lock(${advisoryKey('migrate')})`,
    `DO ${literal(`BEGIN IF to_regclass(${literal(table)}) IS NULL THEN EXECUTE ${literal(createTable(table))}; END IF; END`)}`,
    'COMMIT',
  ];
}

export interface Limits {
  readonly claimTimeoutMs: number;
  readonly statementTimeoutMs: number;
  readonly idleInTransactionTimeoutMs: number;
}

export interface GuardSql {
  /** The advisory lock of the resource. */
  readonly lock: bigint;
  /** Opens the transaction of a run, marks it, waits for its shared turn, then reads the state. */
  openShared(mark: Mark): string;
  /** Opens the transaction of a claim or a seal, waits until it is alone, then reads the state. */
  readonly openExclusive: string;
  /** Stores the state and commits. */
  advanceAndCommit(next: GuardState): string;
  /** For a caller's own transaction: the shared turn. */
  readonly enter: string;
  /** What `enter` then has to know, in one row. */
  readonly entered: string;
  /** The state as it is now, or a serialization failure where the caller's snapshot is older. */
  readonly enteredLatest: string;
}

export function guardSql(table: string, resource: string, limits: Limits): GuardSql {
  const name = literal(resource);
  const key = advisoryKey(table, resource);
  const state = `SELECT lineage || ':' || revision || ':' || acquisition || ' ' || sealed::int AS state FROM ${table} WHERE resource = ${name}`;
  const idle = limits.idleInTransactionTimeoutMs;
  const open = (timeoutMs: number, ...statements: string[]) =>
    [
      'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
      `SET LOCAL idle_in_transaction_session_timeout = ${idle}`,
      `SET LOCAL statement_timeout = ${timeoutMs}`,
      ...statements,
      state,
    ].join('; ');
  return {
    lock: key,
    openShared: (mark) =>
      open(limits.statementTimeoutMs, mark.set, `SELECT pg_advisory_xact_lock_shared(${key})`),
    openExclusive: open(limits.claimTimeoutMs, DURABLE, `SELECT pg_advisory_xact_lock(${key})`),
    advanceAndCommit: ({ token, sealed }) =>
      `INSERT INTO ${table} AS guard (resource, lineage, revision, acquisition, sealed)
VALUES (${name}, ${literal(token.lineage)}, ${token.revision}, ${literal(token.acquisition)}, ${sealed})
ON CONFLICT (resource) DO UPDATE SET revision = excluded.revision, acquisition = excluded.acquisition,
  sealed = excluded.sealed, updated_at = now()
WHERE guard.lineage = excluded.lineage AND guard.revision <= excluded.revision; COMMIT`,
    // As text, because some drivers cannot read PostgreSQL's void.
    enter: `SELECT pg_advisory_xact_lock_shared(${key})::text AS turn`,
    entered: `SELECT current_setting('transaction_isolation') AS isolation,
  (now() < statement_timestamp())::int::text AS open,
  (${state}) AS state,
  CASE current_setting('idle_in_transaction_session_timeout')
    WHEN '0' THEN set_config('idle_in_transaction_session_timeout', '${idle}', true) END AS idle`,
    enteredLatest: `${state} FOR SHARE`,
  };
}

/** A promise must outlive a crash of the server at least as surely as the effects that rest on it. */
const DURABLE = `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')`;

/** Reads the one column `state` of the statements above. The revision never is a JavaScript number. */
export function parseState(rows: readonly unknown[]): GuardState | undefined {
  const text = (rows[0] as { readonly state?: string | null } | undefined)?.state;
  if (text === undefined || text === null) return undefined;
  const [token = '', sealed] = text.split(' ');
  return { token: FencingToken.parse(token), sealed: sealed === '1' };
}
