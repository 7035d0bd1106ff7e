// Queries of postgres.js that go through the guard's transaction: one is sent when the one before it has been
// answered and checked, by the protocol in which a message is one statement.
import { GuardError } from '@lockkeeper/fencing';
import type { PostgresTransaction } from './transaction.ts';

/** A query as the driver's connection sees it. It starts when it is first awaited, by `handler`. */
export interface DriverQuery extends Promise<unknown> {
  handler: ((query: DriverQuery) => unknown) & { readonly debug?: unknown };
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  readonly options: { simple?: boolean };
  /** Made by `readable()` and `writable()`. */
  readonly streaming?: boolean;
  raw(): this;
}

/** What the transaction passes through to its client as it is. */
export interface Job {
  readonly text: string;
  /** Tells the transaction that this sends itself. */
  readonly submit: true;
  /** Sends the query on the connection of the transaction; settles when the driver has answered. */
  run(send: (query: DriverQuery) => void): Promise<unknown>;
}

/** Makes a query, not yet started, one of the guard's transaction. Everything else about it stays. */
export function guardQuery(tx: Pick<PostgresTransaction, 'query'>, query: DriverQuery): DriverQuery {
  if (typeof query.handler !== 'function') {
    throw new GuardError('unavailable', 'this version of the package "postgres" is not one the guard knows');
  }
  const { debug } = query.handler;
  let { resolve, reject } = query;
  let settled = false;
  const answered = new Promise<unknown>((yes, no) => {
    // A cursor replaces both for each batch of rows.
    void Object.defineProperties(query, {
      resolve: { get: () => (value: unknown) => end(() => yes(value)), set: (next) => (resolve = next) },
      reject: { get: () => (error: unknown) => end(() => no(error)), set: (next) => (reject = next) },
    });
  });
  const end = (settle: () => void) => {
    settled = true;
    settle();
  };
  answered.catch(() => undefined);
  const job: Job = {
    text: '',
    submit: true,
    run: (send) => {
      // Cancelled before its turn.
      if (settled) return answered;
      if (query.streaming) throw new GuardError('invalid-option', NO_STREAMS);
      query.options.simple = false;
      send(query);
      return answered;
    },
  };
  const start = () =>
    void tx.query(job).then(
      () => answered.then((value) => resolve(value)),
      (error: unknown) => reject(error),
    );
  query.handler = Object.assign(start, { debug });
  return query;
}

const NO_STREAMS =
  'readable() and writable() need a protocol in which a message is several statements; use guard.enter inside sql.begin';
