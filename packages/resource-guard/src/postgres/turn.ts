import { GuardError } from '@lockkeeper/fencing';
import { untilAborted } from '../abort.ts';
import { Turnstile } from '../turnstile.ts';
import { checkConnected, isPool, type PostgresClient, type PostgresPool } from './client.ts';
import { type ErrorContext, notApplied } from './errors.ts';
import { isInTransaction } from './status.ts';

/**
 * `clean`: no transaction is open. `doubtful`: one may be, and a statement may still be running. `ended`: nor
 * is there a connection.
 */
export type Condition = 'clean' | 'doubtful' | 'ended';

/** A client for one transaction. Whoever took it gives it back exactly once. */
export interface Turn {
  readonly client: PostgresClient;
  giveBack(condition: Condition): Promise<void> | void;
}

/** One connection carries one transaction at a time: the calls of all guards on a Client queue here. */
const turnstiles = new WeakMap<PostgresClient, Turnstile>();

export async function takeTurn(
  source: PostgresPool | PostgresClient,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<Turn> {
  return isPool(source) ? takeFromPool(source, context, signal) : takeClient(source, context, signal);
}

async function takeFromPool(
  pool: PostgresPool,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<Turn> {
  signal?.throwIfAborted();
  const connecting = pool.connect().catch((error: unknown) => {
    throw notApplied(error, context);
  });
  const client = await untilAborted(connecting, signal).catch((error: unknown) => {
    if (signal?.aborted) connecting.then((late) => late.release(), ignore);
    throw error;
  });
  await settled(client);
  // Left open by whoever had it before. It ends with the connection: our COMMIT must not be its COMMIT.
  if (isInTransaction(client)) {
    client.release(true);
    return takeFromPool(pool, context, signal);
  }
  return { client, giveBack: (condition) => client.release(condition !== 'clean') };
}

/**
 * The driver tells of an error before the server has said how the transaction stands after it, so a client can be given
 * back too early to be judged. The empty query is answered after that, and changes nothing.
 */
async function settled(client: PostgresClient): Promise<void> {
  const { readyForQuery } = client as { readonly readyForQuery?: unknown };
  if (readyForQuery === false) await client.query('').catch(ignore);
}

async function takeClient(
  client: PostgresClient,
  context: ErrorContext,
  signal: AbortSignal | undefined,
): Promise<Turn> {
  const turnstile = turnstiles.get(client) ?? new Turnstile();
  turnstiles.set(client, turnstile);
  const leave = await turnstile.enter('exclusive', signal);
  try {
    checkConnected('pool', client);
    await checkIdle(client, context);
  } catch (error) {
    leave();
    throw error;
  }
  return {
    client,
    // A Client is not ours to drop: the next call waits until the server has answered for this one.
    giveBack: (condition) =>
      condition === 'doubtful' ? client.query('ROLLBACK').then(leave, leave) : leave(),
  };
}

/** @throws GuardError `invalid-option` inside a transaction of the owner's, `unavailable` without a connection. */
async function checkIdle(client: PostgresClient, context: ErrorContext): Promise<void> {
  if (!isInTransaction(client)) return;
  // A lost connection keeps its last status; the empty query tells, and changes nothing.
  await client.query('').catch((error: unknown) => {
    throw notApplied(error, context);
  });
  const way = 'pass a Pool, or use guard.enter(tx, token) inside a transaction of your own';
  throw new GuardError('invalid-option', `pool is a Client inside an open transaction; ${way}`);
}

function ignore(): void {}
