// Every statement the guard sends. Values are hexadecimal literals, which mean the same under every character
// set and SQL mode.
import type { GuardState } from '@lockkeeper/fencing';
import { invalid } from '../options.ts';
import { type ColumnValue, columnsOf } from '../stored-columns.ts';
import { parseStoredState } from '../stored-state.ts';
import type { Row } from './reply.ts';

export interface MysqlGuardTable {
  /**
   * Default: the database that the connection is in. Name it where writers of one resource connect to
   * different ones, or the guard is split in two.
   */
  readonly database?: string | undefined;
  /** Default `lockkeeper_guards`. One table serves any number of resources. */
  readonly table?: string | undefined;
}

/** `` `table` `` or `` `database`.`table` ``, quoted. */
export function tableName(options: MysqlGuardTable): string {
  const table = quote(checkIdentifier('table', options.table ?? 'lockkeeper_guards'));
  if (options.database === undefined) return table;
  return `${quote(checkIdentifier('database', options.database))}.${table}`;
}

function checkIdentifier(field: string, value: unknown): string {
  const fits = typeof value === 'string' && value !== '' && !/\0|\p{Surrogate}| $/u.test(value);
  if (fits && Array.from(value).length <= 64) return value;
  throw invalid(field, value, 'expected a MySQL name of 1 to 64 characters');
}

function quote(identifier: string): string {
  return `\`${identifier.replaceAll('`', '``')}\``;
}

/** A binary string. */
export function hex(text: string): string {
  return `X'${Buffer.from(text).toString('hex')}'`;
}

/** The table, for those who keep migrations of their own. Running it again does nothing. */
export function createTable(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${table} (
  resource           VARBINARY(1024) NOT NULL PRIMARY KEY,
  lineage            VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NULL,
  revision           BIGINT          NULL,
  acquisition        VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NULL,
  shared             TINYINT         NOT NULL DEFAULT 0,
  sealed             TINYINT         NOT NULL DEFAULT 0,
  writer_revision    BIGINT          NULL,
  writer_acquisition VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NULL,
  writer_sealed      TINYINT         NULL,
  updated_at         TIMESTAMP       NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC
`;
}

/** The storage engine of the table, no row where there is none. */
export function engineOf(options: MysqlGuardTable): string {
  const database = options.database === undefined ? 'DATABASE()' : utf8(options.database);
  const table = utf8(options.table ?? 'lockkeeper_guards');
  return `SELECT ENGINE AS state FROM information_schema.TABLES WHERE TABLE_SCHEMA = ${database} AND TABLE_NAME = ${table}`;
}

/** A character string, for where a binary one would compare otherwise. */
export function utf8(text: string): string {
  return `CONVERT(${hex(text)} USING utf8mb4)`;
}

export interface Limits {
  readonly claimTimeoutMs: number;
  readonly statementTimeoutMs: number;
  readonly idleInTransactionTimeoutMs: number;
}

/**
 * How the server is spoken to. MariaDB takes several statements as one compound statement, in one round trip,
 * and has limits of its own for idle transactions; MySQL has neither.
 */
export type MysqlDialect = 'mariadb' | 'mysql';

/** A setting of the session with its value for the time of one transaction. */
type Settings = Readonly<Record<string, number | string>>;

/** What opens a transaction, and how the session is put back at its end. */
export interface Opening {
  /** Of which the last one reads. */
  readonly statements: readonly string[];
  /** The longest the opening may take, for a server that can limit that. */
  readonly timeoutMs?: number | undefined;
  readonly restore: string;
  /** A savepoint that lives as long as the transaction, where what follows is not ours alone to write. */
  readonly mark?: string | undefined;
}

export interface GuardSql {
  /** The lock of the resource, for telling resources apart within one source. */
  readonly lock: string;
  /** Opens the transaction of a run, marks it, waits for its shared turn and reads the state. */
  openShared(dialect: MysqlDialect, mark: string): Opening;
  /** Opens the transaction of a claim or a seal, waits until it is alone and reads the state. */
  openExclusive(dialect: MysqlDialect): Opening;
  /** Opens a transaction for reading the state without waiting. */
  openRead(dialect: MysqlDialect): Opening;
  /** Opens a transaction that makes the row which all wait for. */
  openRow(dialect: MysqlDialect): Opening;
  advance(next: GuardState): string;
  /** For a caller's own transaction: the shared turn and the state as it is now. */
  readonly enter: string;
  /** The state as that transaction's snapshot shows it. */
  readonly asSeen: string;
  /**
   * Turn, check, `statement` and COMMIT in one message. Where the state is not `expected`, it gives the one column
   * `mark` alone.
   */
  single(expected: string, statement: string, mark: string, insertIds: boolean): string;
}

export function guardSql(table: string, resource: string, limits: Limits): GuardSql {
  const key = hex(resource);
  const writer = "CONCAT(' ', lineage, ':', writer_revision, ':', writer_acquisition, ' ', writer_sealed)";
  const state = `CONCAT(lineage, ':', revision, ':', acquisition, IF(shared, ':shared ', ' '), sealed, IFNULL(${writer}, ''))`;
  const from = `FROM ${table} WHERE resource = ${key}`;
  const read = `SELECT ${state} AS state ${from}`;
  const begin = 'START TRANSACTION READ WRITE';
  const open = (dialect: MysqlDialect, timeoutMs: number, statements: string[], more: Settings = {}) => {
    const settings = { ...settingsFor(dialect, timeoutMs, limits), ...more };
    return { statements: [saveAndSet(settings), UNDO, begin, ...statements], restore: restore(settings) };
  };
  return {
    lock: `${table} ${key}`,
    openShared: (dialect, mark) => {
      const statements = [`SAVEPOINT ${mark}`, `${read} LOCK IN SHARE MODE`];
      const limit = { max_statement_time: seconds(limits.statementTimeoutMs) };
      const opened = open(dialect, limits.statementTimeoutMs, statements, dialect === 'mariadb' ? limit : {});
      return { ...opened, mark };
    },
    openExclusive: (dialect) => ({
      ...open(dialect, limits.claimTimeoutMs, [`${read} FOR UPDATE`]),
      timeoutMs: limits.claimTimeoutMs,
    }),
    openRead: (dialect) => open(dialect, limits.claimTimeoutMs, [read]),
    openRow: (dialect) => {
      const row = `INSERT INTO ${table} (resource) VALUES (${key}) ON DUPLICATE KEY UPDATE resource = resource`;
      return open(dialect, limits.claimTimeoutMs, [row]);
    },
    advance: (next) => {
      const assignments = Object.entries(columnsOf(next)).map(
        ([column, value]) => `${column} = ${written(value)}`,
      );
      return `UPDATE ${table} SET ${assignments.join(', ')} WHERE resource = ${key}`;
    },
    enter: `${read} LOCK IN SHARE MODE`,
    asSeen: read,
    single: (expected, statement, mark, insertIds) => {
      const limit = `max_statement_time = ${seconds(limits.statementTimeoutMs)}`;
      const lockWait = `innodb_lock_wait_timeout = ${wholeSeconds(limits.statementTimeoutMs) + 1}`;
      const body = [
        'DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END',
        `SET @lockkeeper_committing = 0, @lockkeeper_state = NULL${insertIds ? ', SESSION last_insert_id = 0' : ''}`,
        UNDO,
        begin,
        `SAVEPOINT ${mark}`,
        `SET @lockkeeper_state = (SELECT ${state} ${from} LOCK IN SHARE MODE)`,
        `IF @lockkeeper_state <=> ${hex(expected)} THEN EXECUTE IMMEDIATE ${utf8(statement)}`,
        insertIds ? 'SET @lockkeeper_rows = ROW_COUNT(), @lockkeeper_id = LAST_INSERT_ID()' : '',
        `RELEASE SAVEPOINT ${mark}`,
        'SET @lockkeeper_committing = 1',
        'COMMIT',
        insertIds ? `SELECT @lockkeeper_rows AS ${mark}, @lockkeeper_id AS ${mark}_id` : '',
        `ELSE ROLLBACK; SELECT 0 AS ${mark}; END IF`,
      ];
      return `SET STATEMENT ${limit}, ${lockWait} FOR ${compound(body)}`;
    },
  };
}

function written(value: ColumnValue): string {
  return typeof value === 'string' ? hex(value) : String(value);
}

/**
 * Undoes what may be open after {@link GuardSql.single}, and tells whether it had come to its COMMIT, and whether
 * to the statement. An exception handler of its own has undone it before, unless the server was out of time.
 */
export const SETTLE_SINGLE: readonly string[] = [
  'ROLLBACK',
  'SELECT @lockkeeper_committing, @lockkeeper_state IS NOT NULL',
];

/** What somebody left open on a connection of the pool: START TRANSACTION would commit it. */
export const UNDO = 'ROLLBACK';

/** Several statements as one, for MariaDB. It stops at the first that fails. */
export function compound(statements: readonly string[], timeoutMs?: number): string {
  const body = statements.filter((statement) => statement !== '').join(';\n');
  const limit =
    timeoutMs === undefined ? '' : `SET STATEMENT max_statement_time = ${seconds(timeoutMs)} FOR `;
  return `${limit}BEGIN NOT ATOMIC ${body}; END`;
}

function settingsFor(dialect: MysqlDialect, timeoutMs: number, limits: Limits): Settings {
  const idle = wholeSeconds(limits.idleInTransactionTimeoutMs);
  const lockWait = { innodb_lock_wait_timeout: wholeSeconds(timeoutMs) };
  if (dialect === 'mysql') return { ...lockWait, wait_timeout: idle };
  return {
    ...lockWait,
    idle_transaction_timeout: idle,
    idle_write_transaction_timeout: idle,
    idle_readonly_transaction_timeout: idle,
  };
}

/** The values of before are kept by the session itself, in variables of its own. */
function saveAndSet(settings: Settings): string {
  const names = Object.keys(settings);
  const saved = names.map((name) => `@lockkeeper_${name} = @@SESSION.${name}`);
  return `SET ${[...saved, ...names.map((name) => `SESSION ${name} = ${settings[name]}`)].join(', ')}`;
}

function restore(settings: Settings): string {
  const names = Object.keys(settings);
  return `SET ${names.map((name) => `SESSION ${name} = @lockkeeper_${name}`).join(', ')}`;
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(3);
}

function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000);
}

/** Reads the one column of the statements above: a state, `undefined` where no token has touched the resource. */
export function parseState(resource: string, row: Row): GuardState | undefined {
  return row === undefined || row === null ? undefined : parseStoredState(resource, row);
}
