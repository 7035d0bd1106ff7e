import { GuardError } from '@lockkeeper/fencing';
import { untilAborted } from '../abort.ts';
import { Turnstile } from '../turnstile.ts';
import {
  checkSingleStatements,
  coreOf,
  isPool,
  type MysqlConnection,
  type MysqlPool,
  ownQuery,
} from './client.ts';
import { type ErrorContext, notApplied } from './errors.ts';
import { isInTransaction } from './reply.ts';
import type { MysqlDialect } from './sql.ts';

/** `clean`: no transaction is open. `doubtful`: one may be, and a statement may still be running. */
export type Condition = 'clean' | 'doubtful';

/** A connection for one transaction. Whoever took it gives it back exactly once. */
export interface Turn {
  readonly connection: MysqlConnection;
  readonly dialect: MysqlDialect;
  /** @param restore - puts the session's settings back, where the connection is kept. */
  giveBack(condition: Condition, restore?: string): void;
}

/** One connection carries one transaction at a time: the calls of all guards on a connection queue here. */
const turnstiles = new WeakMap<object, Turnstile>();
/** What the servers behind a pool or a connection said they are. */
const dialects = new WeakMap<object, MysqlDialect>();

export interface Source {
  readonly server: MysqlPool | MysqlConnection;
  /** `undefined`: ask the server. */
  readonly dialect: MysqlDialect | undefined;
}

export async function takeTurn(
  source: Source,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<Turn> {
  const { server } = source;
  const taken = isPool(server)
    ? await takeFromPool(server, context, signal)
    : await takeConnection(server, context, signal);
  try {
    checkSingleStatements(taken.connection);
    if (source.dialect !== undefined) return { ...taken, dialect: source.dialect };
    const core = coreOf(server);
    const dialect = dialects.get(core) ?? (await untilAborted(askDialect(taken.connection, context), signal));
    dialects.set(core, dialect);
    return { ...taken, dialect };
  } catch (error) {
    taken.giveBack(error instanceof GuardError && error.code === 'invalid-option' ? 'clean' : 'doubtful');
    throw error;
  }
}

type Taken = Omit<Turn, 'dialect'>;

async function takeFromPool(
  pool: MysqlPool,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<Taken> {
  signal?.throwIfAborted();
  const connecting = pool.getConnection().catch((error: unknown) => {
    throw notApplied(error, context);
  });
  const connection = await untilAborted(connecting, signal).catch((error: unknown) => {
    if (signal?.aborted) connecting.then((late) => late.release(), ignore);
    throw error;
  });
  const giveBack = (condition: Condition): void => {
    if (condition === 'clean') connection.release();
    else {
      // What the driver still has to say about it is of no interest, but must not go uncaught.
      connection.on('error', ignore);
      connection.destroy();
    }
  };
  return { connection, giveBack };
}

async function takeConnection(
  connection: MysqlConnection,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<Taken> {
  const core = coreOf(connection);
  const turnstile = turnstiles.get(core) ?? new Turnstile();
  turnstiles.set(core, turnstile);
  const leave = await turnstile.enter('exclusive', signal);
  // A connection is not ours to drop: the next call waits until the server has answered for this one.
  const giveBack = (condition: Condition, restore?: string): void => {
    if (condition === 'clean') leave();
    else {
      const undone = connection.query('ROLLBACK');
      (restore === undefined ? undone : undone.then(() => connection.query(restore))).then(leave, leave);
    }
  };
  try {
    await untilAborted(checkIdle(connection, context), signal);
  } catch (error) {
    leave();
    throw error;
  }
  return { connection, giveBack };
}

/**
 * START TRANSACTION would commit what its owner has begun.
 * @throws GuardError `invalid-option` inside a transaction of the owner's, `unavailable` without a connection.
 */
async function checkIdle(connection: MysqlConnection, context: ErrorContext): Promise<void> {
  const reply = await connection.query('DO 0').catch((error: unknown) => {
    throw notApplied(error, context);
  });
  if (isInTransaction(reply) !== true) return;
  const way = 'pass a pool, or use guard.enter(connection, token) inside a transaction of your own';
  throw new GuardError('invalid-option', `pool is a connection inside an open transaction; ${way}`);
}

async function askDialect(connection: MysqlConnection, context: ErrorContext): Promise<MysqlDialect> {
  const reply = await connection.query(ownQuery('SELECT VERSION()')).catch((error: unknown) => {
    throw notApplied(error, context);
  });
  return JSON.stringify(reply?.[0]).includes('MariaDB') ? 'mariadb' : 'mysql';
}

function ignore(): void {}
