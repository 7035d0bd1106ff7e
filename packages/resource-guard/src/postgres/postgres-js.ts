// The package "postgres" (postgres.js) seen as a pool of clients: a connection is kept for one transaction and
// nobody else's queries, and nothing is written to one that is lost, which ends the process in the driver.
import { GuardError } from '@lockkeeper/fencing';
import { invalid } from '../options.ts';
import type {
  PostgresPool,
  PostgresPoolClient,
  PostgresQuery,
  PostgresQueryable,
  PostgresResult,
} from './client.ts';
import { sqlState } from './errors.ts';
import type { DriverQuery, Job } from './postgres-js-query.ts';

/**
 * What `postgres()` of the package "postgres" returns.
 * @typeParam Tx - what its `sql.begin` gives to a transaction: `TransactionSql`.
 */
export interface PostgresJs<Tx = unknown> {
  // biome-ignore lint/suspicious/noExplicitAny: infers the driver's own type from its own declaration
  begin(options: string, body: (sql: Tx) => any): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: the driver's own types are not imported
  unsafe(text: string, parameters?: any[], options?: object): PromiseLike<any>;
  readonly options: object;
}

/** What `sql.begin` of the package "postgres" gives to a transaction. */
export interface PostgresJsTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: the driver's own types are not imported
  unsafe(text: string, parameters?: any[], options?: object): PromiseLike<any>;
}

/** The driver's own view of one connection: what its `sql.begin` uses to keep one for a transaction. */
interface Connection {
  execute(query: DriverQuery): unknown;
  terminate(): void;
  /** Called when it is idle. Without the property `release` the driver takes an idle connection back instead. */
  reserved: Hold | null;
  onclose: ((error: Error) => void) | null;
}

interface Hold {
  (): void;
  release: boolean;
}

/** What is looked at of `sql.options`. */
interface Options {
  readonly transform?: {
    readonly row?: { readonly from?: unknown };
    readonly column?: { readonly from?: unknown };
  };
}

/** The driver's array of rows, which knows more. */
type DriverResult = readonly unknown[] & {
  readonly command?: string;
  readonly count?: number | null;
  readonly columns?: readonly { readonly name: string }[] | null;
};

type Listener = (error: Error) => void;

export function isPostgresJs(value: unknown): value is PostgresJs {
  if (typeof value !== 'function') return false;
  const sql = value as Partial<Record<keyof PostgresJs, unknown>>;
  return (['begin', 'unsafe'] as const).every((name) => typeof sql[name] === 'function');
}

/** `value` as `guard.enter` needs it where it is the `sql` of a transaction; anything else as it is. */
export function queryableOf(value: unknown): unknown {
  if (typeof value !== 'function') return value;
  const { unsafe } = value as Partial<PostgresJsTransaction>;
  if (typeof unsafe !== 'function') return value;
  const query = async (text: string) => results(await (unsafe(text, []) as DriverQuery).raw()).at(-1);
  return { query } satisfies PostgresQueryable;
}

const pools = new WeakMap<PostgresJs, PinningPool>();

/**
 * One pool for each instance, so that all guards on it know that they share it.
 * @throws GuardError `invalid-option`
 */
export function postgresJsPool(sql: PostgresJs): PostgresPool {
  const known = pools.get(sql);
  if (known !== undefined) return known;
  checkOptions(sql.options as Options);
  const pool = new PinningPool(sql);
  pools.set(sql, pool);
  return pool;
}

function checkOptions({ transform }: Options): void {
  if (typeof transform?.row?.from === 'function') {
    const why = 'the guard could not read its own rows; give it an instance without it';
    throw invalid('sql.options.transform.row', transform.row.from, why);
  }
  const rename = transform?.column?.from;
  // Camel, pascal and kebab case change at most the case of one word.
  if (typeof rename === 'function' && String(rename('state')).toLowerCase() !== 'state') {
    const why = 'the guard could not read its own columns; give it an instance without it';
    throw invalid('sql.options.transform.column', rename, why);
  }
}

const UNKNOWN_VERSION = 'the package "postgres" gave no connection of the shape that its version 3.4 has';

/** How often a connection is asked for that the driver had no room on. */
const MOST_TRIES = 20;

/**
 * Not by `sql.reserve()`, which waits for ever where a connection was lost before, or with `fetch_types: false`:
 * an empty query finds a connection as every other query does, and keeps it.
 */
class PinningPool implements PostgresPool {
  /** A pool is told by it; the driver does not count. */
  readonly totalCount = 0;
  readonly #sql: PostgresJs;

  constructor(sql: PostgresJs) {
    this.#sql = sql;
  }

  async connect(): Promise<PostgresPoolClient> {
    for (let tries = 1; ; tries++) {
      try {
        const client = await this.#pin();
        if (client !== undefined) return client;
      } catch (error) {
        if (!isAnothersError(error)) throw error;
      }
      if (tries === MOST_TRIES) throw new GuardError('unavailable', UNKNOWN_VERSION);
    }
  }

  /** `undefined` where the driver put the query on a connection that was full, and did not tell which. */
  #pin(): Promise<PostgresPoolClient | undefined> {
    return new Promise((resolve, reject) => {
      const onexecute = (connection: Connection) => {
        const known = (['execute', 'terminate'] as const).every(
          (name) => typeof connection?.[name] === 'function',
        );
        if (!known) {
          reject(new GuardError('unavailable', UNKNOWN_VERSION));
          return true;
        }
        resolve(new PinnedClient(this.#sql, connection, pin));
        // To the driver: it takes no other queries.
        return false;
      };
      const pin = Promise.resolve(this.#sql.unsafe('', [], { onexecute }) as DriverQuery);
      pin.then(() => resolve(undefined), reject);
    });
  }
}

/** On a connection opened again, the driver reports how the one before ended to whoever comes first. */
function isAnothersError(error: unknown): boolean {
  return sqlState(error) !== undefined && Boolean((error as { readonly query?: unknown }).query);
}

/** A connection kept for one transaction, as a client of `pg`. The guard sends one statement at a time. */
class PinnedClient implements PostgresPoolClient {
  readonly #sql: PostgresJs;
  readonly #connection: Connection;
  /** Settles when everything that was sent before the transaction has been answered. */
  readonly #pin: Promise<unknown>;
  readonly #hold: Hold = Object.assign(() => undefined, { release: true });
  readonly #listeners = { error: new Set<Listener>(), end: new Set<Listener>() };
  readonly #whenLost: Promise<never>;
  #rejectLost: (error: unknown) => void = () => {};
  #lost: unknown;

  constructor(sql: PostgresJs, connection: Connection, pin: Promise<unknown>) {
    this.#sql = sql;
    this.#connection = connection;
    this.#pin = pin;
    this.#whenLost = new Promise((_, reject) => (this.#rejectLost = reject));
    this.#whenLost.catch(() => undefined);
    connection.reserved = this.#hold;
    connection.onclose = (error) => this.#lose(error);
  }

  // biome-ignore lint/suspicious/noExplicitAny: as the interface has it
  async query(query: string | PostgresQuery | Job, values: any[] = []): Promise<any> {
    if (typeof query === 'string') return this.#own(query, values, values.length === 0);
    if ('run' in query) return this.#send((send) => query.run(send));
    return this.#own(query.text, query.values ?? [], false);
  }

  /** A statement of the guard's own. Its values come as bytes, past the parsers of the instance. */
  async #own(text: string, values: readonly unknown[], simple: boolean): Promise<PostgresResult[]> {
    const query = this.#sql.unsafe(text, [...values], { simple }) as DriverQuery;
    query.handler = Object.assign(() => undefined, { debug: query.handler.debug });
    // Then the driver takes the connection back, or closes it where the instance is ending.
    if (ENDS.test(text)) this.#hold.release = false;
    const reply = await this.#send((send) => {
      send(query.raw());
      return query;
    });
    return results(reply);
  }

  async #send(start: (send: (query: DriverQuery) => void) => PromiseLike<unknown>): Promise<unknown> {
    if (this.#lost !== undefined) throw this.#lost;
    // As after a COMMIT that the server refused: whoever has it now must not be rolled back.
    if (!this.#isOurs) throw new Error('the connection was given back');
    try {
      const work = start((query) => void this.#connection.execute(query));
      return await Promise.race([work, this.#whenLost]);
    } catch (error) {
      if (isConnectionError(error)) this.#lose(error as Error);
      // Nothing was sent: the effect has not finished what it streams.
      if (codeOf(error) === 'COPY_IN_PROGRESS') throw new GuardError('unavailable', String(error));
      throw error;
    }
  }

  get #isOurs(): boolean {
    return this.#connection.reserved === this.#hold;
  }

  #lose(error: Error): void {
    if (this.#lost !== undefined) return;
    this.#lost = error;
    this.#rejectLost(error);
    for (const event of ['error', 'end'] as const) {
      for (const listener of this.#listeners[event]) listener(error);
    }
  }

  escapeLiteral(text: string): string {
    const quoted = text.replaceAll('\\', '\\\\').replaceAll("'", "''");
    return quoted.includes('\\') ? ` E'${quoted}'` : `'${quoted}'`;
  }

  on(event: 'error' | 'end', listener: Listener): void {
    this.#listeners[event].add(listener);
  }

  removeListener(event: 'error' | 'end', listener: Listener): void {
    this.#listeners[event].delete(listener);
  }

  release(destroy: Error | boolean = false): void {
    // The driver has taken a lost connection back already, and may have given it to somebody else.
    if (this.#lost !== undefined || !this.#isOurs) return;
    if (destroy === false) {
      // The driver takes an idle connection back after the next answer.
      this.#hold.release = false;
      this.#own('', [], true).catch(() => undefined);
      return;
    }
    // Others may wait for their answers on it.
    const terminate = () => {
      if (this.#isOurs) this.#connection.terminate();
    };
    this.#pin.then(terminate, terminate);
  }
}

/** The guard's own statements after which the connection is idle; to know them saves a message. */
const ENDS = /(?:^|; )(?:COMMIT|ROLLBACK)$/;

/** One result for each statement that reads; the driver folds the others into the next. */
function results(reply: unknown): PostgresResult[] {
  const all = Array.isArray(reply) && !('command' in reply) ? reply : [reply];
  return (all as DriverResult[]).map((result) => {
    const names = (result.columns ?? []).map(({ name }) => name.toLowerCase());
    const rows = result.map((row) => Object.fromEntries(names.map((name, at) => [name, text(row, at)])));
    return { command: result.command ?? '', rowCount: result.count ?? null, rows };
  });
}

function text(row: unknown, at: number): string | null {
  const value: unknown = Array.isArray(row) ? row[at] : undefined;
  if (value === null) return null;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  // What this means depends on when it comes, as for any error of a driver.
  throw new Error('an answer of postgres.js to the guard has an unknown form');
}

function codeOf(error: unknown): unknown {
  return (error as { readonly code?: unknown } | undefined)?.code;
}

/** The driver's words, or Node's, for a connection that is over; what the driver refuses itself has neither. */
function isConnectionError(error: unknown): boolean {
  if (sqlState(error) !== undefined || !(error instanceof Error)) return false;
  const { syscall } = error as { readonly syscall?: unknown };
  return /^CONNECT(ION)?_/.test(String(codeOf(error))) || syscall === 'read' || syscall === 'write';
}
