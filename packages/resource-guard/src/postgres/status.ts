// Whether a connection of `pg` is inside a transaction, by what the server said at the end of its last answer. Older
// versions of the driver do not tell, so the guard listens itself.
import type { PostgresClient } from './client.ts';

/** What is used of the driver's connection. */
export interface StatusSource {
  prependListener(event: 'readyForQuery', listener: (message: { readonly status?: string }) => void): unknown;
}

export class Status {
  /** `I` idle, `T` in a transaction, `E` in a failed one; `undefined` before the first answer. */
  latest: string | undefined;

  get isInTransaction(): boolean {
    return this.latest === 'T' || this.latest === 'E';
  }
}

const known = new WeakMap<object, Status>();

/** The status of `connection` from now on: one listener as long as it lives, called before the driver's own. */
export function statusOf(connection: StatusSource): Status {
  const before = known.get(connection);
  if (before !== undefined) return before;
  const status = new Status();
  known.set(connection, status);
  connection.prependListener('readyForQuery', (message) => {
    status.latest = message.status;
  });
  return status;
}

/** `false` also where nobody knows, as of a connection that is new to the guard. */
export function isInTransaction(client: PostgresClient): boolean {
  const { connection } = client as { readonly connection?: Partial<StatusSource> };
  const told = client.getTransactionStatus?.();
  if (typeof told === 'string') return told === 'T' || told === 'E';
  if (typeof connection?.prependListener !== 'function') return false;
  return statusOf(connection as StatusSource).isInTransaction;
}
