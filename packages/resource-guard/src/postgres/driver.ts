// What is used of `pg` in JavaScript beyond its public words, and how a statement is sent by it.
import type { PostgresClient, PostgresQueryable } from './client.ts';
import type { StatusSource } from './status.ts';

/** What is used of the driver's connection. */
export interface Connection extends StatusSource {
  readonly stream: {
    readonly writable: boolean;
    write(bytes: Uint8Array): unknown;
    cork?(): void;
    uncork?(): void;
  };
  readonly submittedNamedStatements?: Record<string, unknown>;
  sync(): void;
}

/** What is used of the driver's query, which knows how to convert parameters and rows. */
export interface DriverQuery {
  readonly name?: string | undefined;
  readonly text: string;
  readonly _result: unknown;
  binary: unknown;
  callback: Callback;
  submit: (connection: Connection) => Error | null;
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
}
export type Callback = (error: unknown, result?: unknown) => void;
type QueryClass = new (config: object) => DriverQuery;

/** Whether `client` is a `pg` client in JavaScript, with a connection of the shape known here. */
export function canPipeline(client: PostgresClient): boolean {
  const { connection, pipeline } = client as { connection?: Partial<Connection>; pipeline?: unknown };
  const fits = (['sync', 'prependListener'] as const).every(
    (name) => typeof connection?.[name] === 'function',
  );
  return (
    fits &&
    typeof connection?.stream?.write === 'function' &&
    pipeline !== true &&
    queryClass(client) !== undefined
  );
}

/** Statements of the guard's own for `client.query`: their rows are text, whatever the types the pool makes of it. */
export function ownText(client: PostgresQueryable, text: string): string {
  // Only `pg` takes an object; to its types this one is a text.
  return (canPipeline(client as PostgresClient) ? { text, types: AS_TEXT } : text) as string;
}

/** `client.query` of one statement by the extended protocol, of which the driver always sends the end. */
export function sendQuery(client: PostgresClient, query: object): Promise<unknown> {
  const Query = queryClass(client);
  if (Query === undefined || !canPipeline(client)) return client.query(query as unknown as string);
  return new Promise((resolve, reject) => {
    let failed = false;
    const { query_timeout } = query as { readonly query_timeout?: unknown };
    const own = Object.assign(new Query(query), { query_timeout });
    const submit = own.submit.bind(own);
    own.submit = (connection) => submitWhole(submit, connection, () => failed);
    own.callback = (error, result) => {
      if (error === null || error === undefined) return resolve(result);
      failed = true;
      reject(error);
    };
    void client.query(own as unknown as string);
  }).catch((error: unknown) => {
    // Like the driver: the way from its socket to here tells nobody where the statement was sent.
    if (error instanceof Error) Error.captureStackTrace(error);
    throw error;
  });
}

const AS_TEXT = { getTypeParser: () => (value: unknown) => value };

export function queryClass(client: object): QueryClass | undefined {
  const { Query } = client.constructor as { readonly Query?: QueryClass };
  return typeof Query?.prototype?.submit === 'function' ? Query : undefined;
}

/**
 * Lets the driver send a query. Where it cannot convert a parameter, most versions leave out the end of the message,
 * for which the server would wait for ever, with all its locks.
 */
export function submitWhole(
  submit: DriverQuery['submit'],
  connection: Connection,
  hasFailed: () => boolean,
): Error | null {
  let ended = false;
  const sync = () => {
    ended = true;
    connection.sync();
  };
  const refused = submit(Object.create(connection, { sync: { value: sync } }) as Connection);
  if (hasFailed() && !ended) connection.sync();
  return refused;
}
