// One guarded statement in one round trip: the turn, the check, the statement and the commit leave together. The
// three are statements of one implicit transaction, which the end of the message commits.
import type { FencingToken, GuardState } from '@lockkeeper/fencing';
import { GuardError } from '@lockkeeper/fencing';
import { untilAborted } from '../abort.ts';
import { describe, invalid } from '../options.ts';
import type { PostgresClient, PostgresPool, PostgresQuery, PostgresResult } from './client.ts';
import { canPipeline } from './driver.ts';
import {
  type ErrorContext,
  endsConnection,
  isRetry,
  make,
  maybeApplied,
  notApplied,
  sqlState,
} from './errors.ts';
import { Pipeline } from './pipeline.ts';
import type { PostgresJsTransaction } from './postgres-js.ts';
import { type GuardSql, stateInFailedCheck } from './sql.ts';
import type { PostgresTransaction } from './transaction.ts';
import { type Condition, takeTurn } from './turn.ts';

/**
 * `refused`: nothing was applied, since the check found `state`, or a transaction of another kind than READ
 * COMMITTED. `elsewhere`: nothing was sent, the driver cannot send it so.
 */
export type QueryEnding =
  | { readonly ending: 'applied'; readonly result: PostgresResult }
  | { readonly ending: 'refused'; readonly state: GuardState | undefined }
  | { readonly ending: 'elsewhere' };

/**
 * A statement of which it is certain that it cannot end a transaction. CALL and DO can, where nobody has sent
 * BEGIN; then they would go on without their turn.
 */
export function staysInTransaction({ text, rows }: PostgresQuery & { readonly rows?: unknown }): boolean {
  // With `rows` the driver asks for them part by part, one round trip each.
  return rows === undefined && /^\s*(?:INSERT|UPDATE|DELETE|MERGE|SELECT|WITH|VALUES|TABLE)\b/i.test(text);
}

const EXTENDED = { queryMode: 'extended' };

/** @throws GuardError `invalid-option` for what is not one statement with parameters. */
export function checkQuery(query: unknown, values: unknown): PostgresQuery {
  if (values !== undefined && !Array.isArray(values)) throw invalid('values', values, 'expected an array');
  // By the extended protocol, in which a message is one statement.
  const given = values === undefined ? EXTENDED : { values, ...EXTENDED };
  if (typeof query === 'string') return { text: query, ...given };
  const expected = 'expected SQL text or an object with it as "text"';
  if (typeof query !== 'object' || query === null) throw invalid('query', query, expected);
  const { text } = query as { readonly text?: unknown };
  if ('submit' in query) throw invalid('query', query, 'a cursor or a stream needs guard.run()');
  if (typeof text !== 'string') throw invalid('query', query, `${expected}, which is ${describe(text)}`);
  return Object.create(query, Object.getOwnPropertyDescriptors(given)) as PostgresQuery;
}

/** The same inside a run, whose handle may be the `sql` of postgres.js. */
export async function queryThrough<Row>(handle: unknown, query: PostgresQuery): Promise<PostgresResult<Row>> {
  if (typeof handle !== 'function') return (handle as PostgresTransaction).query<Row>(query);
  const { unsafe } = handle as unknown as PostgresJsTransaction;
  const rows = (await unsafe(query.text, query.values ?? [])) as PostgresJsRows<Row>;
  return { command: rows.command, rowCount: rows.count, rows: [...rows] };
}

type PostgresJsRows<Row> = readonly Row[] & { readonly command: string; readonly count: number | null };

/**
 * Sends `query` under `token`, once.
 * @param expected - the state it is applied in, and in no other.
 * @throws GuardError `unknown` where the reply was lost. The errors of the statement are `pg`'s own.
 */
export async function queryOnce(
  source: PostgresPool | PostgresClient,
  sql: GuardSql,
  token: FencingToken,
  expected: string,
  query: PostgresQuery,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<QueryEnding> {
  const { client, giveBack } = await takeTurn(source, context, signal);
  let condition = 'clean' as Condition;
  let pipeline: Pipeline | undefined;
  const onError = () => undefined;
  const onEnd = () => {
    condition = 'ended';
  };
  client.on('error', onError);
  client.on('end', onEnd);
  try {
    if (!canPipeline(client)) return { ending: 'elsewhere' };
    const statements = sql.turnAndCheck(token, expected);
    pipeline = new Pipeline(client, source, statements, query);
    try {
      return await answer(pipeline, context, signal);
    } catch (error) {
      if (!pipeline.lostPrepared(causeOf(error))) throw error;
      pipeline = new Pipeline(client, source, statements, query);
      return await answer(pipeline, context, signal);
    }
  } catch (error) {
    // The server's own errors end the implicit transaction; without any answer nobody knows.
    const cause = causeOf(error);
    const answered =
      (pipeline?.hasEnded && !pipeline.isInTransaction) ||
      (sqlState(cause) !== undefined && !endsConnection(cause));
    if (condition !== 'ended' && !answered) condition = 'doubtful';
    throw error;
  } finally {
    const givenBack = Promise.resolve(giveBack(condition));
    const forget = () => {
      client.removeListener('error', onError);
      client.removeListener('end', onEnd);
    };
    givenBack.then(forget, forget);
  }
}

function causeOf(error: unknown): unknown {
  return error instanceof GuardError ? error.cause : error;
}

async function answer(
  pipeline: Pipeline,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<QueryEnding> {
  try {
    const { result } = await untilAborted(pipeline.done, signal);
    if (!pipeline.isInTransaction) return { ending: 'applied', result: result as PostgresResult };
  } catch (error) {
    if (signal?.aborted && error === signal.reason) {
      if (pipeline.cancel()) throw error;
      throw make('unknown', 'stopped waiting for the reply', error, context);
    }
    const isCheck = pipeline.answered === 1 && sqlState(error) === '22P02';
    if (!isCheck) throw explain(error, pipeline, context);
    return { ending: 'refused', state: stateInFailedCheck(context.resource, (error as Error).message) };
  }
  // The end of the message has committed nothing. Where the driver knows, it did not come to this.
  const what = 'the connection has an open transaction, which is undone; end it before it is used again';
  throw make('unavailable', what, undefined, context);
}

/** What `error` means for the statement, by how far the server had come. */
function explain(error: unknown, pipeline: Pipeline, context: ErrorContext): unknown {
  if (!pipeline.wasSent) return notApplied(error, context);
  const state = sqlState(error);
  if (state === undefined) {
    if (!pipeline.hasEnded)
      return make('unknown', 'the reply was lost; it may have been applied', error, context);
    if (!pipeline.alongAnswered) return error;
    return make('unknown', 'it was applied, but the driver could not read its result', error, context);
  }
  // Before the statement itself nothing can have been applied, whatever happened to the connection.
  if (!pipeline.ownAnswered) return notApplied(error, context);
  if (pipeline.alongAnswered || endsConnection(error)) return maybeApplied(error, context);
  return isRetry(error) || state === '57014' || state === '55P03' ? notApplied(error, context) : error;
}
