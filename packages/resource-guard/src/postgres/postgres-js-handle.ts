// What an effect gets where the guard is on postgres.js: the `sql` of a transaction, as in `sql.begin`, whose
// queries all go through the guard.
import { readFile } from 'node:fs/promises';
import { GuardError } from '@lockkeeper/fencing';
import type { PostgresJs } from './postgres-js.ts';
import { type DriverQuery, guardQuery } from './postgres-js-query.ts';
import type { PostgresTransaction } from './transaction.ts';

type Effect<Handle> = (handle: Handle) => unknown;

/** The driver's `sql`, of which the effect gets a guarded likeness. */
type DriverSql = ((...args: unknown[]) => unknown) &
  Record<'unsafe', (...args: unknown[]) => DriverQuery> &
  Record<'types' | 'typed' | 'array' | 'json', unknown>;

/** Calls `effect` as `sql.begin` does: of an array that it returns, everything is awaited. */
export async function callWithSql(
  sql: PostgresJs,
  tx: Pick<PostgresTransaction, 'query'>,
  effect: Effect<unknown>,
): Promise<unknown> {
  return settle(effect(handleOf(sql as unknown as DriverSql, tx)));
}

/** A query starts when it is awaited, so one in an array would otherwise never be sent. */
async function settle(returned: unknown): Promise<unknown> {
  const value = await returned;
  return Array.isArray(value) && !('command' in value) ? Promise.all(value) : value;
}

function handleOf(sql: DriverSql, tx: Pick<PostgresTransaction, 'query'>): unknown {
  let savepoints = 0;
  const handle = (...args: unknown[]) => {
    const built = sql(...args);
    return built instanceof Promise ? guardQuery(tx, built as DriverQuery) : built;
  };
  const unsafe = (...args: unknown[]) => guardQuery(tx, sql.unsafe(...args));
  const savepoint = async (...args: [string, Effect<unknown>] | [Effect<unknown>]) => {
    const body = args.at(-1) as Effect<unknown>;
    const name = `"s${savepoints++}${args.length > 1 ? `_${String(args[0]).replaceAll('"', '""')}` : ''}"`;
    await unsafe(`SAVEPOINT ${name}`);
    try {
      return await settle(body(handle));
    } catch (error) {
      await unsafe(`ROLLBACK TO SAVEPOINT ${name}`);
      throw error;
    }
  };
  return Object.assign(handle, {
    types: sql.types,
    typed: sql.typed,
    array: sql.array,
    json: sql.json,
    unsafe,
    savepoint,
    notify: (channel: string, payload: string) => unsafe('SELECT pg_notify($1, $2)', [channel, `${payload}`]),
    file: (path: string, ...args: unknown[]) => fromFile(tx, sql, path, args),
    prepare: () => {
      throw new GuardError('invalid-option', "the transaction is the guard's to end: there is no prepare()");
    },
  });
}

/** Reads the file when the query starts, and only then asks for its turn. */
function fromFile(
  tx: Pick<PostgresTransaction, 'query'>,
  sql: DriverSql,
  path: string,
  args: unknown[],
): DriverQuery {
  const query = guardQuery(tx, sql.unsafe('', ...args));
  const start = query.handler;
  query.handler = Object.assign(
    (started: DriverQuery) =>
      void readFile(path, 'utf8')
        .then(
          (text) => Object.assign(started, { strings: [text] }),
          (error: unknown) => started.reject(error),
        )
        .then(() => start(started)),
    { debug: start.debug },
  );
  return query;
}
