import { untilAborted } from '../abort.ts';
import { invalid } from '../options.ts';
import { coreOf, type MysqlConnection, type MysqlResult, ownQuery } from './client.ts';
import { type ErrorContext, endsConnection, make, notApplied, serverErrno } from './errors.ts';
import { resultsOf, rowsOf } from './reply.ts';
import { compound, type GuardSql, SETTLE_SINGLE } from './sql.ts';
import { newMark } from './transaction.ts';
import { type Source, type Turn, takeTurn } from './turn.ts';
import { inserts, staysInside } from './words.ts';

export interface Single {
  /** The state it is applied in, and in no other. */
  readonly expected: string;
  readonly sql: string;
  readonly values: unknown;
}

/** In one message a statement is twice as long, and `max_allowed_packet` is the server's. A run sends it as it is. */
const LONGEST = 256 * 1024;

/** @throws GuardError `invalid-option` */
export function checkSingle(sql: unknown): void {
  if (typeof sql !== 'string') throw invalid('sql', sql, 'expected SQL');
  if (!staysInside(sql)) {
    throw invalid(
      'sql',
      sql,
      'it would end the transaction, or is not known to stay inside; nothing was sent',
    );
  }
}

/**
 * One guarded statement in one message to MariaDB: turn, check, statement and COMMIT stay statements of their own
 * there, so nothing is applied unless the state is as expected from before the statement until after COMMIT.
 * @returns `undefined` where nothing was applied: another state is in force, the server is no MariaDB, or the
 * statement is long.
 */
export async function runSingle(
  source: Source,
  guard: GuardSql,
  { expected, sql, values }: Single,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<MysqlResult | undefined> {
  const turn = await takeTurn(source, context, signal);
  if (turn.dialect !== 'mariadb') {
    turn.giveBack('clean');
    return undefined;
  }
  const { connection } = turn;
  const ignoreError = () => {};
  connection.on('error', ignoreError);
  const mark = newMark();
  let message: string | undefined;
  try {
    const statement = values === undefined ? sql : connection.format(sql, values);
    if (statement.length <= LONGEST) message = guard.single(expected, statement, mark, inserts(sql));
  } finally {
    if (message === undefined) {
      connection.removeListener('error', ignoreError);
      turn.giveBack('clean');
    }
  }
  if (message === undefined) return undefined;
  const answered = connection
    .query({ sql: message, ...castOf(connection, mark) })
    .finally(() => connection.removeListener('error', ignoreError));
  try {
    const reply = await untilAborted(answered, signal);
    turn.giveBack('clean');
    return readReply(reply, mark);
  } catch (error) {
    if (signal?.aborted && error === signal.reason) {
      turn.giveBack('doubtful');
      throw make('unknown', 'stopped waiting for the reply to COMMIT', error, context);
    }
    throw await settle(turn, error, mark, context);
  }
}

function readReply(reply: unknown, mark: string): MysqlResult | undefined {
  const results = resultsOf(reply);
  const header = results.at(-1)?.[0] as object;
  const withRows = results.filter(([result]) => Array.isArray(result));
  const [ownRows, ownColumns] = withRows.find(([, columns]) => nameOf(columns) === mark) ?? [];
  if ((ownColumns as readonly unknown[] | undefined)?.length === 1) return undefined;
  const theirs = withRows.find(([, columns]) => nameOf(columns) !== mark);
  if (theirs !== undefined) return [theirs[0], theirs[1]];
  if (ownRows === undefined) return [header, undefined];
  const [row] = ownRows as readonly (readonly unknown[] | Record<string, unknown>)[];
  // With `nestTables` one object deeper, or with the name of no table before each.
  const cells = Object.values(row ?? {}).flatMap((cell) => (isRow(cell) ? Object.values(cell) : [cell]));
  const [affectedRows, insertId] = cells.map(numberOf);
  return [{ ...header, affectedRows, insertId }, undefined];
}

function isRow(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** A number where it is exact, else what the driver gave. */
function numberOf(value: unknown): unknown {
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

function nameOf(columns: unknown): unknown {
  return (columns as readonly { readonly name: string }[])[0]?.name;
}

/** What the caller's own conversion makes of the caller's own columns; ours stay as they are. */
function castOf(connection: MysqlConnection, mark: string): object {
  const { config } = coreOf(connection) as { config?: { typeCast?: unknown } };
  const theirs = config?.typeCast;
  if (typeof theirs !== 'function') return {};
  const typeCast = (field: { name: string }, next: () => unknown): unknown =>
    field.name === mark || field.name === `${mark}_id` ? next() : theirs(field, next);
  return { typeCast };
}

/** Whether an error came before COMMIT is for the session to say; only a lost connection leaves it open. */
async function settle(turn: Turn, error: unknown, mark: string, context: ErrorContext): Promise<unknown> {
  const unknown = make('unknown', 'the reply to COMMIT was lost; it may have been applied', error, context);
  if (serverErrno(error) === undefined || endsConnection(error)) {
    turn.giveBack('doubtful');
    return unknown;
  }
  let committing: unknown;
  let checked: unknown;
  try {
    const reply = await turn.connection.query(ownQuery(compound(SETTLE_SINGLE)));
    [committing, checked] = rowsOf(reply)[0] as readonly unknown[];
    turn.giveBack('clean');
  } catch {
    turn.giveBack('doubtful');
    return unknown;
  }
  if (Number(committing) !== 0) return unknown;
  if (serverErrno(error) === 1305 && (error as Error).message.includes(mark)) {
    return make('unknown', 'the statement ended the transaction that the guard had opened', error, context);
  }
  const told = notApplied(error, context);
  // What the server says of the statement itself comes out untouched, as from a run.
  return Number(checked) === 0 || told.code === 'retry' || told.code === 'timeout' ? told : error;
}
