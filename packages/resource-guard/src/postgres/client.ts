// What the guard needs of `pg`, structurally, so that any copy or version of the driver fits.
import { GuardError } from '@lockkeeper/fencing';
import { describe, invalid } from '../options.ts';

/** The result of one statement, as `pg` gives it. */
export interface PostgresResult<Row = Record<string, unknown>> {
  readonly command: string;
  readonly rowCount: number | null;
  readonly rows: Row[];
}

/** A statement with its parameters, as `pg` takes it. */
export interface PostgresQuery {
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver converts
  readonly values?: any[];
  readonly name?: string;
}

/** Anything that runs a statement with positional parameters: a `pg` client, or an adapter to an ORM. */
export interface PostgresQueryable {
  // biome-ignore lint/suspicious/noExplicitAny: a parameter can be whatever the driver converts
  query(text: string, values?: any[]): Promise<unknown>;
}

/** A connected `pg` Client, or a client checked out of a Pool. */
export interface PostgresClient extends PostgresQueryable {
  escapeLiteral(text: string): string;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  removeListener(event: 'error' | 'end', listener: (error: Error) => void): unknown;
  /** `I` idle, `T` in a transaction, `E` in a failed one. Recent versions of `pg` have it. */
  getTransactionStatus?(): string | null;
}

export interface PostgresPoolClient extends PostgresClient {
  release(destroy?: Error | boolean): void;
}

/** A `pg` Pool. */
export interface PostgresPool {
  readonly totalCount: number;
  connect(): Promise<PostgresPoolClient>;
}

/** What is looked at to tell the objects apart that people pass. */
interface Members {
  readonly $client?: unknown;
  readonly $pool?: unknown;
  readonly connect?: unknown;
  readonly totalCount?: unknown;
  readonly query?: unknown;
  readonly escapeLiteral?: unknown;
  readonly on?: unknown;
  readonly removeListener?: unknown;
  readonly client?: unknown;
  readonly pool?: unknown;
  readonly _connected?: unknown;
  readonly _connecting?: unknown;
  readonly _ended?: unknown;
}
const CLIENT_METHODS = ['query', 'escapeLiteral', 'on', 'removeListener'] as const;

export function isPool(value: PostgresPool | PostgresClient): value is PostgresPool {
  const members = value as Members;
  return typeof members.connect === 'function' && typeof members.totalCount === 'number';
}

/** @throws GuardError `invalid-option` for anything that is neither a `pg` Pool nor a `pg` Client. */
export function checkSource(value: unknown): PostgresPool | PostgresClient {
  if ((typeof value === 'object' || typeof value === 'function') && value !== null) {
    const members = value as Members;
    if (isPool(value as PostgresPool)) return value as PostgresPool;
    if (CLIENT_METHODS.every((name) => typeof members[name] === 'function')) return value as PostgresClient;
  }
  const expected = `expected a Pool or a Client of the package "pg", or the sql of postgres.js${hintFor(value)}`;
  // It may be a connection string, with a password in it.
  if (typeof value === 'string') throw new GuardError('invalid-option', `pool is a string; ${expected}`);
  throw invalid('pool', value, expected);
}

/** The objects people most often have in hand instead. */
function hintFor(value: unknown): string {
  if (typeof value === 'string') return ', as in new Pool({ connectionString })';
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return '';
  const members = value as Members;
  for (const inner of ['$client', '$pool', 'client', 'pool'] as const) {
    const found = members[inner];
    if (typeof found === 'object' && found !== null && isPool(found as PostgresPool)) {
      return `; its property "${inner}" is one`;
    }
  }
  if (typeof (value as { readonly unsafe?: unknown }).unsafe === 'function') {
    return '; this is a transaction or a reserved connection of it: pass the sql itself, or use guard.enter(sql, token)';
  }
  return typeof value === 'function' ? '; was a class or a tag function passed instead of an instance?' : '';
}

/**
 * What is sent to a `pg` Client that nobody connected, or whose connecting failed, waits for ever. The driver
 * has no public words for these states; where it has not even those used here, nothing is refused.
 * @throws GuardError `invalid-option`, `unavailable`
 */
export function checkConnected(field: string, value: object): void {
  const { _connected, _connecting, _ended } = value as Members;
  if (_connected !== false) return;
  if (_ended === true) {
    throw new GuardError('unavailable', `${field} is a Client that could not connect; make another one`);
  }
  if (_connecting === false)
    throw invalid(field, value, 'it was never connected: await client.connect() first');
}

/** @throws GuardError `invalid-option` */
export function checkQueryable(value: unknown): PostgresQueryable {
  const query = typeof value === 'object' && value !== null ? (value as Members).query : undefined;
  if (typeof query === 'function') {
    checkConnected('tx', value as object);
    return value as PostgresQueryable;
  }
  throw invalid('tx', value, `expected an object with a method "query", which is ${describe(query)}`);
}
