// What the guard needs of `mysql2`, structurally, so that any copy or version of the driver fits.
import { GuardError } from '@lockkeeper/fencing';
import { invalid } from '../options.ts';

/** A statement with its options, as `mysql2` takes it. */
export interface MysqlQuery {
  readonly sql: string;
  // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver converts
  readonly values?: any;
}

/** What `mysql2` resolves with: the rows or the header of a statement, and the columns. */
// biome-ignore lint/suspicious/noExplicitAny: the caller knows what the statement gives
export type MysqlResult<Result = any> = [result: Result, fields: any];

/** A connected `mysql2/promise` connection. */
export interface MysqlConnection {
  // biome-ignore lint/suspicious/noExplicitAny: the driver's overloads fit nothing narrower
  query(query: any, values?: any): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: the driver's overloads fit nothing narrower
  execute(query: any, values?: any): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: the driver's overloads fit nothing narrower
  format(sql: string, values?: any): string;
  on(event: 'error' | 'end', listener: (error: Error) => void): unknown;
  removeListener(event: 'error' | 'end', listener: (error: Error) => void): unknown;
}

export interface MysqlPoolConnection extends MysqlConnection {
  release(): void;
  destroy(): void;
}

/** A `mysql2/promise` pool. */
export interface MysqlPool {
  getConnection(): Promise<MysqlPoolConnection>;
}

/** Anything that runs a statement: a `mysql2` connection, or an adapter to an ORM's transaction. */
export interface MysqlQueryable {
  query(sql: string): Promise<unknown>;
}

/** What is looked at to tell the objects apart that people pass. */
interface Members {
  readonly $client?: unknown;
  readonly connection?: unknown;
  readonly pool?: unknown;
  readonly promise?: unknown;
  readonly getConnection?: unknown;
  readonly query?: unknown;
  readonly execute?: unknown;
  readonly on?: unknown;
  readonly config?: { readonly clientFlags?: unknown };
}

/** CLIENT_MULTI_STATEMENTS of the MySQL protocol. */
const MULTI_STATEMENTS = 0x1_0000;

export function isPool(value: MysqlPool | MysqlConnection): value is MysqlPool {
  return typeof (value as Members).getConnection === 'function';
}

function isConnection(value: object): value is MysqlConnection {
  const methods = ['query', 'execute', 'format', 'on', 'removeListener'] as const;
  return methods.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
}

/** @throws GuardError `invalid-option` for anything but a pool or a connection of `mysql2/promise`. */
export function checkSource(value: unknown): MysqlPool | MysqlConnection {
  if ((typeof value === 'object' || typeof value === 'function') && value !== null) {
    const members = value as Members;
    const promising = typeof members.promise !== 'function';
    if (promising && isPool(value as MysqlPool)) return value as MysqlPool;
    if (promising && isConnection(value)) return value;
  }
  const expected = `expected a pool or a connection of "mysql2/promise"${hintFor(value)}`;
  // It may be a connection string, with a password in it.
  if (typeof value === 'string') throw new GuardError('invalid-option', `pool is a string; ${expected}`);
  throw invalid('pool', value, expected);
}

/** The objects people most often have in hand instead. */
function hintFor(value: unknown): string {
  if (typeof value === 'string') return ', as in mysql.createPool(url)';
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return '';
  const { promise, $client } = value as Members;
  if (typeof promise === 'function') return '; this one calls back: pass its promise()';
  if (typeof $client === 'object' && $client !== null) return '; its property "$client" may be one';
  return '';
}

/** The driver's own object, which its wrappers share. */
export function coreOf(source: MysqlPool | MysqlConnection): object {
  const { pool, connection } = source as Members;
  const core = isPool(source) ? pool : connection;
  return typeof core === 'object' && core !== null ? core : source;
}

/**
 * Several statements in one text could end the transaction and go on without it before anybody has seen a
 * reply, so such a connection is not used. Where the driver does not tell, the end of the run still does.
 * @throws GuardError `invalid-option`
 */
export function checkSingleStatements(connection: MysqlConnection): void {
  const { config } = coreOf(connection) as Members;
  if (typeof config?.clientFlags !== 'number' || (config.clientFlags & MULTI_STATEMENTS) === 0) return;
  const way = 'make a pool without it for what is guarded';
  throw new GuardError(
    'invalid-option',
    `pool has multipleStatements on, which could end a run early; ${way}`,
  );
}

/** @throws GuardError `invalid-option` */
export function checkQueryable(value: unknown): MysqlQueryable {
  const members = (typeof value === 'object' && value !== null ? value : {}) as Members;
  if (typeof members.promise === 'function' && typeof members.query === 'function') {
    throw invalid('connection', value, 'this one calls back: pass its promise()');
  }
  if (typeof members.getConnection === 'function') {
    throw invalid('connection', value, 'a pool has no transaction: pass the connection that has');
  }
  if (typeof members.query === 'function') return value as MysqlQueryable;
  throw invalid('connection', value, 'expected an object with a method "query"');
}

/** A statement of ours for the driver: its rows are arrays of plain values, whatever the caller set for its own. */
export function ownQuery(sql: string): object {
  return { sql, rowsAsArray: true, nestTables: false, typeCast: (_: unknown, next: () => unknown) => next() };
}

/** The same through what the caller's own transaction is written by, which may understand only text. */
export function queryFor(target: MysqlQueryable, sql: string): string {
  return isConnection(target) ? (ownQuery(sql) as unknown as string) : sql;
}
