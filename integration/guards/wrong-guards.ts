// Five guards that look right, pass ordinary tests and lose writes. Each is careful in everything except the
// one fault it is named after. They exist so that the contract suite can be shown to find them.
import {
  decideGuard,
  FencingToken,
  type Guard,
  type GuardAdmin,
  GuardError,
  type GuardState,
  type GuardVerb,
  type RunOptions,
  refusal,
} from '@lockkeeper/fencing';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import type pg from 'pg';

/** How these guards let an effect reach its account. */
export interface AccountHandle {
  read(): Promise<string>;
  write(value: string): Promise<void>;
}

const TABLE = 'public.lockkeeper_guards';
const COLUMNS =
  'lineage, revision, acquisition, shared, sealed, writer_revision, writer_acquisition, writer_sealed';
const STATE = `SELECT *, revision::text, writer_revision::text FROM ${TABLE} WHERE resource = $1`;
const LOCK = (kind: 'shared' | 'exclusive') =>
  `SELECT pg_advisory_xact_lock${kind === 'shared' ? '_shared' : ''}(hashtextextended($1, 0))`;
const ADVANCE = `INSERT INTO ${TABLE} AS guard (resource, ${COLUMNS})
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
  ON CONFLICT (resource) DO UPDATE SET (${COLUMNS}) = (SELECT excluded.lineage, excluded.revision,
    excluded.acquisition, excluded.shared, excluded.sealed, excluded.writer_revision, excluded.writer_acquisition,
    excluded.writer_sealed)
  WHERE guard.lineage = excluded.lineage AND (guard.revision < excluded.revision OR
    guard.revision = excluded.revision AND guard.acquisition = excluded.acquisition AND NOT guard.sealed)`;

async function stateOf(client: pg.PoolClient | pg.Pool, resource: string): Promise<GuardState | undefined> {
  const { rows } = await client.query(STATE, [resource]);
  const [row] = rows;
  if (row === undefined) return undefined;
  const highest = { token: new FencingToken(row), sealed: row.sealed };
  if (row.writer_revision === null) return highest;
  const { writer_revision: revision, writer_acquisition: acquisition, writer_sealed: sealed } = row;
  const token = new FencingToken({ lineage: row.lineage, revision, acquisition });
  return { ...highest, writer: { token, sealed } };
}

function parameters(resource: string, { token, sealed, writer }: GuardState): unknown[] {
  const last = [writer?.token.revision.toString(), writer?.token.acquisition, writer?.sealed];
  return [resource, token.lineage, `${token.revision}`, token.acquisition, token.shared, sealed, ...last];
}

async function transaction<T>(
  pool: pg.Pool,
  begin: string,
  body: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query(begin);
    const value = await body(client);
    await client.query('COMMIT');
    return value;
  } catch (error) {
    await client.query('ROLLBACK');
    if ((error as { code?: unknown } | undefined)?.code === '40001')
      throw new GuardError('retry', 'again', { cause: error });
    throw error;
  } finally {
    client.release();
  }
}

/** Gives up with `unknown`, since the transaction goes on. */
async function untilAborted<T>(signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
  signal?.throwIfAborted();
  const aborted = new Promise<never>((_, reject) => {
    signal?.addEventListener('abort', () => reject(new GuardError('unknown', 'stopped waiting')), {
      once: true,
    });
  });
  return Promise.race([call(), aborted]);
}

/** The check as a sub-select of the write. */
export function existsGuard(pool: pg.Pool, resource: string): Guard<AccountHandle> {
  const right = postgresGuard(pool, { resource });
  return {
    resource,
    claim: (token, options) => right.claim(token, options),
    seal: (token, options) => right.seal(token, options),
    async run(token, effect, options: RunOptions = {}) {
      options.signal?.throwIfAborted();
      const decision = decideGuard('run', resource, await stateOf(pool, resource), token, options);
      if (decision.verdict === 'reject') throw decision.error;
      if (decision.next !== undefined) await right.claim(token);
      return transaction(pool, 'BEGIN', async (client) => effect(existsHandle(client, resource, token)));
    },
  };
}

function existsHandle(client: pg.PoolClient, resource: string, token: FencingToken): AccountHandle {
  const inForce = `EXISTS (SELECT FROM ${TABLE}
    WHERE resource = $1 AND lineage = $2 AND revision = $3 AND acquisition = $4 AND NOT sealed)`;
  return {
    read: async () => {
      const { rows } = await client.query('SELECT value FROM account WHERE name = $1', [resource]);
      return rows[0].value;
    },
    write: async (value) => {
      const update = `UPDATE account SET value = $5 WHERE name = $1 AND ${inForce}`;
      const { lineage, revision, acquisition } = token;
      const { rowCount } = await client.query(update, [resource, lineage, `${revision}`, acquisition, value]);
      if (rowCount === 0) throw refusal('stale-token', resource, token, undefined);
    },
  };
}

/** The claim travels inside each statement of the work. */
export function foldedGuard(pool: pg.Pool, resource: string): Guard<AccountHandle> {
  const right = postgresGuard(pool, { resource });
  return {
    resource,
    // Checks, and leaves the promise to the first statement of the work.
    async claim(token, options = {}) {
      options.signal?.throwIfAborted();
      const decision = decideGuard('claim', resource, await stateOf(pool, resource), token);
      if (decision.verdict === 'reject') throw decision.error;
    },
    seal: (token, options) => right.seal(token, options),
    async run(token, effect, options: RunOptions = {}) {
      options.signal?.throwIfAborted();
      const decision = decideGuard('run', resource, await stateOf(pool, resource), token, options);
      if (decision.verdict === 'reject') throw decision.error;
      return transaction(pool, 'BEGIN', async (client) => effect(foldedHandle(client, resource, token)));
    },
  };
}

function foldedHandle(client: pg.PoolClient, resource: string, token: FencingToken): AccountHandle {
  const ask = async (work: string, ...more: unknown[]) => {
    const statement = `WITH claim AS (${ADVANCE} RETURNING 1) ${work} AND EXISTS (SELECT FROM claim)`;
    const result = await client.query(statement, [
      ...parameters(resource, { token, sealed: false }),
      ...more,
    ]);
    if (result.rowCount === 0) throw refusal('stale-token', resource, token, undefined);
    return result.rows;
  };
  return {
    read: async () => (await ask('SELECT value FROM account WHERE name = $1'))[0].value,
    write: async (value) => {
      await ask('UPDATE account SET value = $10 WHERE name = $1', value);
    },
  };
}

/** The right locks and the right table, inside a transaction whose snapshot is older than the lock. */
export function snapshotGuard(pool: pg.Pool, resource: string): Guard<AccountHandle> {
  const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ';
  const advance = (verb: 'claim' | 'seal', token: FencingToken) =>
    transaction(pool, BEGIN, async (client) => {
      await client.query(LOCK('exclusive'), [resource]);
      const decision = decideGuard(verb, resource, await stateOf(client, resource), token);
      if (decision.verdict === 'reject') throw decision.error;
      if (decision.next) await client.query(ADVANCE, parameters(resource, decision.next));
    });
  return {
    resource,
    claim: (token, { signal } = {}) => untilAborted(signal, () => advance('claim', token)),
    seal: (token, { signal } = {}) => untilAborted(signal, () => advance('seal', token)),
    async run(token, effect, options: RunOptions = {}) {
      options.signal?.throwIfAborted();
      const glance = decideGuard('run', resource, await stateOf(pool, resource), token, options);
      if (glance.verdict === 'reject') throw glance.error;
      return transaction(pool, BEGIN, async (client) => {
        await client.query(LOCK(glance.next === undefined ? 'shared' : 'exclusive'), [resource]);
        const decision = decideGuard('run', resource, await stateOf(client, resource), token, options);
        if (decision.verdict === 'reject') throw decision.error;
        if (decision.next) await client.query(ADVANCE, parameters(resource, decision.next));
        return effect(plainHandle(client, resource));
      });
    },
  };
}

function plainHandle(client: pg.PoolClient, resource: string): AccountHandle {
  return {
    read: async () => {
      const { rows } = await client.query('SELECT value FROM account WHERE name = $1', [resource]);
      return rows[0].value;
    },
    write: async (value) => {
      await client.query('UPDATE account SET value = $2 WHERE name = $1', [resource, value]);
    },
  };
}

/** One mark: a reader is a holder like any other. */
export function oneMarkGuard(right: Guard): Guard {
  const asWriter = (token: FencingToken) => new FencingToken({ ...token, shared: false });
  return {
    resource: right.resource,
    claim: (token, options) => right.claim(asWriter(token), options),
    seal: (token, options) => right.seal(asWriter(token), options),
    run: (token, effect, options) => right.run(asWriter(token), effect, options),
  };
}

/** A mark of writers alone: readers are compared with it and leave it as it is. */
export function writersMarkGuard(right: Guard & GuardAdmin): Guard {
  const check = async (verb: GuardVerb, token: FencingToken) => {
    const decision = decideGuard(verb, right.resource, await right.inspect(), token);
    if (decision.verdict === 'reject') throw decision.error;
  };
  return {
    resource: right.resource,
    claim: (token, options) => (token.shared ? check('claim', token) : right.claim(token, options)),
    seal: (token, options) => (token.shared ? check('seal', token) : right.seal(token, options)),
    run: async (token, effect, options) => {
      if (!token.shared) return right.run(token, effect, options);
      await check('run', token);
      return effect(undefined);
    },
  };
}
