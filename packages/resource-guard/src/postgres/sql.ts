// Every statement the guard sends. Values are literals in plain ASCII, so that several statements can leave
// together in one message of the simple protocol (one round trip, still statements of their own).
import { createHash } from 'node:crypto';
import type { FencingToken, GuardState } from '@lockkeeper/fencing';
import { invalid } from '../options.ts';
import { type ColumnValue, columnsOf } from '../stored-columns.ts';
import { formatStoredState, parseStoredState } from '../stored-state.ts';
import { literal, quote } from './literal.ts';
import { markSetting } from './mark.ts';
import { ownStatement, type Statement } from './pipeline.ts';

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
export function advisoryKey(...parts: string[]): bigint {
  const hash = createHash('sha256').update(JSON.stringify(['@lockkeeper/resource-guard', ...parts]));
  return hash.digest().readBigInt64BE();
}

export function checkIdentifier(field: string, value: unknown): string {
  const fits = typeof value === 'string' && value !== '' && !/\0|\p{Surrogate}/u.test(value);
  // PostgreSQL cuts longer names silently, which could make two of them one.
  if (fits && Buffer.byteLength(value) <= 63) return value;
  throw invalid(field, value, 'expected a PostgreSQL name of 1 to 63 bytes');
}

/** The table, for those who keep migrations of their own. Running it again does nothing. */
export function createTable(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${table} (
  resource           text        PRIMARY KEY,
  lineage            text        NOT NULL,
  revision           bigint      NOT NULL CHECK (revision > 0),
  acquisition        text        NOT NULL,
  shared             boolean     NOT NULL,
  sealed             boolean     NOT NULL,
  writer_revision    bigint,
  writer_acquisition text,
  writer_sealed      boolean,
  updated_at         timestamptz NOT NULL DEFAULT now()
);
`;
}

/** Two processes may migrate at once; and a role that may not create tables may ask whether there is one. */
export function migration(table: string): readonly string[] {
  return [
    BEGIN,
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

/** The setting in which a transaction notes the turns it holds, as `key=token`; the trigger reads it. */
export const TURNS = 'lockkeeper.turns';

export interface GuardSql {
  /** The advisory lock of the resource. */
  readonly lock: bigint;
  /** Opens the transaction of a run, marks it, waits for its shared turn, then reads the state. */
  openShared(token: FencingToken, mark: string): readonly Statement[];
  /**
   * Takes a shared turn for `token`, then fails unless the state is `expected`; both in a transaction that nobody
   * opened.
   */
  turnAndCheck(token: FencingToken, expected: string): readonly [Statement, Statement];
  /** Opens the transaction of a claim, a seal or a rebase, waits until it is alone, then reads the state. */
  readonly openExclusive: string;
  /** The same beside runs, for a claim that may spoil none of them. */
  readonly openBeside: string;
  /** Puts `next` in the place of the state that was read, and of no other one. */
  replace(read: GuardState | undefined, next: GuardState): string;
  /** Opens a transaction that only reads the state, and waits for no turn. */
  readonly look: string;
  /** For a caller's own transaction: the shared turn. */
  readonly enter: string;
  /** What `enter` then has to know, in one row; the transaction notes its turn. */
  entered(token: FencingToken): string;
  /** The state as it is now, or a serialization failure where the caller's snapshot is older. */
  readonly enteredLatest: string;
}

export function guardSql(table: string, resource: string, limits: Limits): GuardSql {
  const name = literal(resource);
  const key = advisoryKey(table, resource);
  const state = `SELECT ${STATE} AS state FROM ${table} WHERE resource = ${name}`;
  const idle = limits.idleInTransactionTimeoutMs;
  const statementMs = `${limits.statementTimeoutMs}`;
  const prepare = statementsOn(table);
  const turn = (token: FencingToken) => `${key}=${token}`;
  const openToDecide = (lock: string) =>
    [
      BEGIN,
      `SET LOCAL idle_in_transaction_session_timeout = ${idle}`,
      `SET LOCAL statement_timeout = ${limits.claimTimeoutMs}`,
      DURABLE,
      lock,
      state,
    ].join('; ');
  /** A hold uses its own token again and again. */
  let latest: { readonly of: string; readonly statements: readonly [Statement, Statement] } | undefined;
  return {
    lock: key,
    look: `BEGIN READ ONLY; SET LOCAL statement_timeout = ${statementMs}; ${state}`,
    openShared: (token, mark) => [
      prepare.begin,
      prepare.settings(`${idle}`, statementMs, mark, turn(token)),
      prepare.lock(`${key}`),
      prepare.state(resource),
    ],
    turnAndCheck: (token, expected) => {
      const of = `${token} ${expected}`;
      if (latest?.of !== of) {
        const statements = [
          prepare.turn(statementMs, turn(token), `${key}`),
          prepare.check(resource, expected),
        ] as const;
        latest = { of, statements };
      }
      return latest.statements;
    },
    openExclusive: openToDecide(`SELECT pg_advisory_xact_lock(${key})`),
    openBeside: openToDecide(`SELECT pg_advisory_xact_lock_shared(${key})`),
    replace: (read, next) => {
      const columns = Object.entries(columnsOf(next)).map(
        ([column, value]) => [column, written(value)] as const,
      );
      if (read === undefined) {
        const [names, values] = [0, 1].map((part) => columns.map((column) => column[part]).join(', '));
        return `INSERT INTO ${table} (resource, ${names}) VALUES (${name}, ${values}) ON CONFLICT (resource) DO NOTHING`;
      }
      const assignments = columns.map((column) => column.join(' = ')).join(', ');
      return `UPDATE ${table} SET ${assignments}, updated_at = now()
WHERE resource = ${name} AND ${STATE} = ${literal(formatStoredState(read))}`;
    },
    // As text, because some drivers cannot read PostgreSQL's void.
    enter: `SELECT pg_advisory_xact_lock_shared(${key})::text AS turn`,
    entered: (token) => `SELECT current_setting('transaction_isolation') AS isolation,
  (now() < statement_timestamp())::int::text AS open,
  (${state}) AS state,
  set_config('${TURNS}', concat_ws(' ', nullif(current_setting('${TURNS}', true), ''), ${literal(turn(token))}), true) AS turns,
  CASE current_setting('idle_in_transaction_session_timeout')
    WHEN '0' THEN set_config('idle_in_transaction_session_timeout', '${idle}', true) END AS idle`,
    enteredLatest: `${state} FOR SHARE`,
  };
}

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE';
/** The state as text, as `formatStoredState` gives it. */
export const STATE = `lineage || ':' || revision || ':' || acquisition || CASE WHEN shared THEN ':shared ' ELSE ' ' END || sealed::int
  || coalesce(' ' || lineage || ':' || writer_revision || ':' || writer_acquisition || ' ' || writer_sealed::int, '')`;

function written(value: ColumnValue): string {
  return typeof value === 'string' ? literal(value) : String(value);
}

const byTable = new Map<string, ReturnType<typeof makeStatements>>();

/** What every run sends is prepared once a connection: to parse and to plan it takes longer than to do it. */
function statementsOn(table: string) {
  const known = byTable.get(table) ?? makeStatements(table);
  byTable.set(table, known);
  return known;
}

function makeStatements(table: string) {
  const local = (setting: string, parameter: string) => `set_config('${setting}', ${parameter}, true)`;
  const statement = (what: string, text: string) => {
    const { name } = ownStatement(what, text);
    return (...values: string[]): Statement => ({ name, text, values });
  };
  return {
    begin: statement('BEGIN', BEGIN)(),
    settings: statement(
      'settings',
      `SELECT ${local('idle_in_transaction_session_timeout', '$1')}, ${local('statement_timeout', '$2')},
  ${local(markSetting, '$3')}, ${local(TURNS, '$4')}`,
    ),
    lock: statement('lock', 'SELECT pg_advisory_xact_lock_shared($1)'),
    state: statement('state', `SELECT ${STATE} AS state FROM ${table} WHERE resource = $1`),
    // The statement's own timeout was read when it began, that of a lock is read when it has to wait.
    turn: statement(
      'turn',
      `SELECT ${local('statement_timeout', '$1')}, ${local(TURNS, '$2')},
  CASE current_setting('lock_timeout') WHEN '0' THEN ${local('lock_timeout', '$1')} END,
  pg_advisory_xact_lock_shared($3)`,
    ),
    // A cast fails without a function of ours in the database, and its error repeats the text.
    check: statement(
      'check',
      `SELECT CASE WHEN found.state = $2 AND ${IMPLICIT} THEN 1 ELSE ('lockkeeper[' || coalesce(found.state, '') || ']')::int END
FROM (SELECT (SELECT ${STATE} FROM ${table} WHERE resource = $1)) AS found (state)`,
    ),
  };
}

/** Elsewhere a statement sees what was so before its turn came. */
const IMPLICIT = `current_setting('transaction_isolation') = 'read committed' AND current_setting('transaction_read_only') = 'off'`;

/**
 * What a failed check found in force, `undefined` where nothing is.
 * @param message - the error's.
 */
export function stateInFailedCheck(resource: string, message: string): GuardState | undefined {
  const state = /lockkeeper\[([^\]]+)\]/.exec(message)?.[1];
  return state === undefined ? undefined : parseStoredState(resource, state);
}

/** A promise must outlive a crash of the server at least as surely as the effects that rest on it. */
const DURABLE = `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')`;

/** Reads the one column `state` of the statements above. */
export function parseState(resource: string, rows: readonly unknown[]): GuardState | undefined {
  const [row] = rows as readonly ({ readonly state?: unknown } | undefined)[];
  return row === undefined || row.state === null ? undefined : parseStoredState(resource, row.state);
}
