// The guard for users of postgres.js: the same contract, the three outcomes, and a `sql` for the effect that
// cannot leave its transaction unnoticed.
import { type FencingToken, FencingToken as Token } from '@lockkeeper/fencing';
import { describeGuard, type GuardedValue } from '@lockkeeper/resource-guard/contract';
import { type PostgresGuard, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import {
  chunkContaining,
  type PostgresServer,
  startPostgres,
  startTcpProxy,
  type TcpProxy,
} from '@lockkeeper/testkit';
import postgres from 'postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Bank } from './account.ts';

type Sql = postgres.Sql;
type Tx = postgres.TransactionSql;

let server: PostgresServer;
let bank: Bank;
let proxy: TcpProxy;
const instances: Sql[] = [];

function newSql(url: string, options: postgres.Options<Record<string, postgres.PostgresType>> = {}): Sql {
  const sql = postgres(url, { max: 6, onnotice: () => undefined, ...options }) as unknown as Sql;
  instances.push(sql);
  return sql;
}

beforeAll(async () => {
  server = await startPostgres();
  bank = await Bank.open(server.url);
  proxy = await startTcpProxy(server.url);
});
afterAll(async () => {
  await Promise.all(instances.map((sql) => sql.end({ timeout: 1 })));
  await bank?.[Symbol.asyncDispose]();
  await proxy?.[Symbol.asyncDispose]();
  await server?.stop();
});

/** Reads and writes an account by tagged templates. */
function accountAccess(name: string): Pick<GuardedValue<Tx>, 'read' | 'write'> {
  return {
    read: async (sql) => {
      const [row] = await sql<{ value: string }[]>`SELECT value FROM account WHERE name = ${name}`;
      return row?.value ?? '';
    },
    write: async (sql, value) => {
      await sql`UPDATE account SET ${sql({ value })} WHERE name = ${name}`;
    },
  };
}

for (const { how, options } of [
  { how: 'postgres.js', options: {} },
  {
    how: 'postgres.js, camel case, no prepared statements, no types fetched',
    options: { prepare: false, fetch_types: false, ...camel() },
  },
]) {
  let sqls: [Sql, Sql] | undefined;
  describeGuard(
    {
      name: how,
      open: async () => {
        sqls ??= [newSql(server.url, options), newSql(server.url, options)];
        const resource = await bank.newAccount();
        const [guard, other] = sqls.map((sql) => postgresGuard(sql, { resource })) as [Guard, Guard];
        return bank.fixture<Tx>(resource, { guard, other }, accountAccess(resource), async () => {});
      },
    },
    { describe, it },
  );
}
type Guard = PostgresGuard<Tx>;

function camel() {
  return { transform: postgres.camel };
}

const token = (revision: bigint): FencingToken =>
  new Token({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);
/** The end of a message of the simple protocol, which READ COMMITTED is not. */
const COMMIT = 'COMMIT\0';

let account: string;
let sql: Sql;
let guard: Guard;
let read: (sql: Tx) => Promise<string>;
let write: (sql: Tx, value: string) => Promise<void>;

beforeAll(() => {
  sql = newSql(server.url);
});
beforeEach(async () => {
  account = await bank.newAccount();
  guard = postgresGuard(sql, { resource: account });
  ({ read, write } = accountAccess(account));
  await guard.claim(OLD);
});

describe('outcomes on postgres.js', () => {
  let through: Guard;
  beforeEach(() => {
    through = postgresGuard(newSql(proxy.url), { resource: account });
  });

  /** The next message that contains `text` is the last on its connection. */
  function lose(text: string, kind: 'drop-reply' | 'drop-request'): void {
    const match = chunkContaining(text);
    const caught =
      kind === 'drop-reply'
        ? proxy.loseReply({ match }).lost
        : proxy.hold({ direction: 'request', match }).held;
    void caught.then(() => proxy.cut());
  }
  const append = (as: FencingToken, entry: string) =>
    through.run(as, async (sql) => write(sql, `${await read(sql)}${entry}`));

  it.each(['drop-reply', 'drop-request'] as const)(
    'is unknown where the reply to COMMIT is lost (%s), and the instance goes on',
    async (kind) => {
      lose(COMMIT, kind);
      await expect(append(OLD, 'x')).rejects.toMatchObject({ code: 'unknown', token: OLD });
      // Waits for the abandoned transaction, so the answer after it is final.
      await guard.claim(NEW);
      expect(await bank.peek(account)).toBe(kind === 'drop-reply' ? 'x' : '');
      await append(NEW, 'y');
      expect(await bank.peek(account)).toBe(kind === 'drop-reply' ? 'xy' : 'y');
    },
  );

  it('is unknown where the reply to a claim is lost; claiming again settles it', async () => {
    lose(COMMIT, 'drop-reply');
    await expect(through.claim(NEW)).rejects.toMatchObject({ code: 'unknown' });
    await through.claim(NEW);
    await expect(guard.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
  });

  it.each(['drop-reply', 'drop-request'] as const)(
    'is unavailable where the connection is lost at a write (%s)',
    async (kind) => {
      lose('UPDATE account', kind);
      await expect(append(OLD, 'x')).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
      await guard.claim(NEW);
      expect(await bank.peek(account)).toBe('');
    },
  );

  it('is unavailable where the server ends the connection between two statements, and the effect goes on regardless', async () => {
    let noticed: () => void = () => {};
    const closed = new Promise<void>((resolve) => (noticed = resolve));
    const other = newSql(server.url, { max: 2, onclose: () => noticed() });
    const onOther = postgresGuard(other, { resource: account });
    const late: unknown[] = [];
    let finished: () => void = () => {};
    const effectOver = new Promise<void>((resolve) => (finished = resolve));
    const run = onOther.run(OLD, async (sql) => {
      await write(sql, 'x');
      await terminate(sql);
      await closed;
      // The driver itself crashes the process where a lost connection is written to.
      late.push(await sql`SELECT 1`.catch((error: unknown) => error));
      late.push(await write(sql, 'late').catch((error: unknown) => error));
      finished();
    });
    await expect(run).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    await effectOver;
    expect(late).toMatchObject([{ code: 'unavailable' }, { code: 'unavailable' }]);
    expect(await bank.peek(account)).toBe('');
    await onOther.run(OLD, (sql) => write(sql, 'y'));
    expect(await bank.peek(account)).toBe('y');
  });

  it('is unavailable where no connection can be had', async () => {
    const nowhere = newSql('postgres://nobody@127.0.0.1:1/none');
    const unreachable = postgresGuard(nowhere, { resource: account });
    await expect(unreachable.claim(OLD)).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
  });

  it('is retry at a deadlock, with nothing applied', async () => {
    const other = await bank.newAccount();
    let arrived = 0;
    let bothHere: () => void = () => {};
    const both = new Promise<void>((resolve) => (bothHere = resolve));
    const crossing = (first: string, second: string) =>
      guard.run(OLD, async (sql) => {
        await sql`UPDATE account SET value = 'x' WHERE name = ${first}`;
        arrived += 1;
        if (arrived === 2) bothHere();
        await both;
        await sql`UPDATE account SET value = 'x' WHERE name = ${second}`;
      });
    const endings = await Promise.allSettled([crossing(account, other), crossing(other, account)]);
    const reasons = endings.flatMap((ending) => (ending.status === 'rejected' ? [ending.reason] : []));
    expect(reasons).toMatchObject([{ code: 'retry', outcome: 'retry', cause: { code: '40P01' } }]);
  });

  it('is timeout after claimTimeoutMs, and after statementTimeoutMs behind a claim', async () => {
    const hasty = postgresGuard(sql, { resource: account, claimTimeoutMs: 100, statementTimeoutMs: 100 });
    let claim: Promise<void> | undefined;
    await guard.run(OLD, async (tx) => {
      await expect(hasty.claim(NEW)).rejects.toMatchObject({ code: 'invalid-option' });
      const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
      const apart = postgresGuard(newSql(server.url), {
        resource: account,
        claimTimeoutMs: 100,
        statementTimeoutMs: 100,
      });
      await expect(apart.claim(NEW)).rejects.toMatchObject({ code: 'timeout', outcome: 'failed' });
      claim = postgresGuard(bank.newPool(), { resource: account }).claim(NEW);
      await bank.blockedBy(row?.pid ?? 0);
      await expect(apart.run(OLD, () => 0)).rejects.toMatchObject({ code: 'timeout' });
    });
    await claim;
  });

  it('is the reason of a signal that aborts, at once, and nothing stays locked', async () => {
    const abort = new AbortController();
    const reason = new Error('enough');
    await guard.run(OLD, async (tx) => {
      const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
      const apart = postgresGuard(newSql(server.url, { max: 1 }), { resource: account });
      const claim = apart.claim(NEW, { signal: abort.signal });
      await bank.blockedBy(row?.pid ?? 0);
      abort.abort(reason);
      await expect(claim).rejects.toBe(reason);
    });
    await guard.run(OLD, (tx) => write(tx, 'still mine'));
    expect(await bank.peek(account)).toBe('still mine');
  });

  it("comes to the effect as the driver's own error, and is not success where the effect swallows it", async () => {
    let seen: unknown;
    const failing = guard.run(OLD, async (sql) => {
      await sql`SELECT 1 / 0`.catch((error: unknown) => {
        seen = error;
        throw error;
      });
    });
    expect(await failing.catch((error: unknown) => error)).toBe(seen);
    expect(seen).toMatchObject({ name: 'PostgresError', code: '22012' });

    const swallowing = guard.run(OLD, async (sql) => {
      await write(sql, 'x');
      await sql`SELECT 1 / 0`.catch(() => undefined);
    });
    await expect(swallowing).rejects.toMatchObject({ code: 'unavailable', cause: { code: '22012' } });
    const refused = guard.run(OLD, (sql) => sql`SELECT ${undefined as never}`);
    await expect(refused).rejects.toMatchObject({ code: 'UNDEFINED_VALUE' });
    expect(await bank.peek(account)).toBe('');
    await guard.run(OLD, (sql) => write(sql, 'y'));
  });
});

async function terminate(tx: Tx): Promise<void> {
  const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
  await bank.pool.query('SELECT pg_terminate_backend($1)', [row?.pid]);
  await bank.until('SELECT WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)', [row?.pid]);
}

describe('the sql of an effect', () => {
  it('is what sql.begin gives: fragments, helpers, cursors, savepoints, an array of queries', async () => {
    const seen = await guard.run(OLD, async (sql) => {
      const where = sql`name = ${account}`;
      const values = await sql`SELECT name, ${7}::int AS seven FROM account WHERE ${where}`.values();
      const batches: number[] = [];
      for await (const rows of sql`SELECT generate_series(1, 5) AS n`.cursor(2)) batches.push(rows.length);
      const firstOf: unknown[] = [];
      for await (const [row] of sql`SELECT generate_series(1, 5) AS n`.cursor()) {
        firstOf.push(row?.['n']);
        if (firstOf.length === 2) break;
      }
      await sql`SELECT 1`.forEach(() => void batches.push(0));
      const described = await sql`SELECT 1 AS one`.describe();
      await sql
        .savepoint('attempt', async (sql) => {
          await write(sql, 'undone');
          await sql`SELECT 1 / 0`;
        })
        .catch(() => undefined);
      expect(await read(sql)).toBe('');
      const kept = await sql.savepoint((sql) => sql`SELECT ${sql.array([1, 2])}::int[] AS list`);
      await sql.notify('nobody', 'listens');
      return [values, batches, firstOf, described.columns.map(({ name }) => name), kept[0]?.['list']];
    });
    expect(seen).toEqual([[[account, 7]], [2, 2, 1, 0], [1, 2], ['one'], [1, 2]]);

    const both = await guard.run(
      OLD,
      (sql) => [sql`UPDATE account SET value = 'a' WHERE name = ${account}`, sql`SELECT 2 AS two`] as const,
    );
    expect(both[1]).toEqual([{ two: 2 }]);
    expect(await bank.peek(account)).toBe('a');
  });

  it('reads files, and refuses what would leave the one-statement protocol or the transaction', async () => {
    await expect(guard.run(OLD, (sql) => sql.file('/nowhere.sql'))).rejects.toMatchObject({ code: 'ENOENT' });
    const copy = guard.run(OLD, (sql) => sql`COPY account FROM STDIN`.writable());
    await expect(copy).rejects.toMatchObject({ code: 'invalid-option', message: /writable/ });
    const prepared = guard.run(OLD, (sql) => sql.prepare('later'));
    await expect(prepared).rejects.toMatchObject({ code: 'invalid-option', message: /prepare/ });
  });

  it('serves guard.query', async () => {
    const set = 'UPDATE account SET value = $1 WHERE name = $2 RETURNING value';
    const result = await guard.query(OLD, set, ['q', account]);
    expect(result).toEqual({ command: 'UPDATE', rowCount: 1, rows: [{ value: 'q' }] });
    await guard.query(NEW, 'UPDATE account SET value = value || 2');
    await expect(guard.query(OLD, set, ['late', account])).rejects.toMatchObject({ code: 'stale-token' });
    expect(await bank.peek(account)).toBe('q2');
  });

  it('is over with the effect', async () => {
    const kept = await guard.run(OLD, (sql) => ({ sql }));
    await expect(kept.sql`SELECT 1`).rejects.toMatchObject({ code: 'unavailable', message: /is over/ });
  });

  const ENDED = { code: 'unknown', message: expect.stringContaining('ended the transaction') };
  it.each([
    [['COMMIT AND CHAIN'], ENDED],
    [['ROLLBACK AND CHAIN'], ENDED],
    [['COMMIT', 'BEGIN'], ENDED],
    [['COMMIT; BEGIN'], { code: 'unavailable', cause: { code: '42601' } }],
  ])('cannot leave the transaction unnoticed: %j', async (statements, expected) => {
    let escaped: () => void = () => {};
    const atLarge = new Promise<void>((resolve) => (escaped = resolve));
    let goOn: () => void = () => {};
    const overtaken = new Promise<void>((resolve) => (goOn = resolve));
    const old = guard.run(OLD, async (sql) => {
      for (const statement of statements)
        await sql
          .unsafe(statement)
          .simple()
          .catch(() => undefined);
      escaped();
      await overtaken;
      await write(sql, 'late').catch(() => undefined);
    });
    const ending = old.catch((error: unknown) => error);
    await atLarge;
    await guard.claim(NEW);
    await guard.run(NEW, (sql) => write(sql, 'new'));
    goOn();
    expect(await ending).toMatchObject(expected);
    expect(await bank.peek(account)).toBe('new');
  });

  it('cannot leave it by queries that are not awaited one by one', async () => {
    const run = guard.run(OLD, async (sql) => {
      await Promise.allSettled([
        sql.unsafe('COMMIT AND CHAIN').execute(),
        sql`UPDATE account SET value = 'late' WHERE name = ${account}`.execute(),
        sql.unsafe('COMMIT AND CHAIN').execute(),
      ]);
    });
    await expect(run).rejects.toMatchObject(ENDED);
    expect(await bank.peek(account)).toBe('');
  });
});

describe('an instance of one connection', () => {
  it('serves first runs, claims and migrations one after another, and the rest of the application', async () => {
    const single = newSql(server.url, { max: 1 });
    const onSingle = postgresGuard(single, { resource: account });
    await onSingle.migrate();
    await onSingle.run(NEW, (sql) => write(sql, 'x'));
    const append = (entry: string) =>
      onSingle.run(NEW, async (sql) => write(sql, `${await read(sql)}${entry}`));
    await Promise.all([append('a'), single`SELECT 1`, append('b'), onSingle.claim(NEW), append('c')]);
    expect(await bank.peek(account)).toMatch(/^x[abc]{3}$/);
    const inside = onSingle.run(NEW, () => onSingle.claim(NEW));
    await expect(inside).rejects.toMatchObject({ code: 'invalid-option' });
    await single.end();
  });

  it('serves who waits for the connection when it is lost, and who comes after', async () => {
    const single = newSql(server.url, { max: 1 });
    const onSingle = postgresGuard(single, { resource: account });
    const [row] = await single<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
    const lost = single`SELECT pg_sleep(60)`.execute();
    const endings = Promise.allSettled([lost, onSingle.claim(NEW), onSingle.claim(NEW), onSingle.claim(NEW)]);
    await bank.until("SELECT FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%pg_sleep%'", [row?.pid]);
    await bank.pool.query('SELECT pg_terminate_backend($1)', [row?.pid]);
    // The driver had put the first of them on the connection already.
    expect(await endings).toMatchObject([
      { reason: { code: 'CONNECTION_CLOSED' } },
      { reason: { code: 'unavailable' } },
      { status: 'fulfilled' },
      { status: 'fulfilled' },
    ]);
    expect(await onSingle.run(NEW, () => 'served')).toBe('served');
    // The driver ends a connection that is in use as soon as it is idle.
    let ended: Promise<void> | undefined;
    await onSingle.run(NEW, (sql) => {
      ended = single.end();
      return sql`SELECT 1`;
    });
    await ended;
  });
});

describe('an instance that is busy', () => {
  it('never shares a connection with a run, however many queries the driver puts on one', async () => {
    const busy = newSql(server.url, { max: 2, ...({ max_pipeline: 3 } as object) });
    const onBusy = postgresGuard(busy, { resource: account });
    const inTransaction = () => busy<{ mark: string }[]>`
      SELECT current_setting('lockkeeper.run', true) AS mark, pg_current_xact_id_if_assigned() AS xid`;
    // The driver puts four on a connection and does not tell of the last; each count leaves another place to a run.
    for (const count of [20, 21, 22, 23]) {
      const plain = Array.from({ length: count }, () => inTransaction().execute());
      const runs = Array.from({ length: 10 }, () =>
        onBusy.run(OLD, (sql) => sql`UPDATE account SET value = value || 'x' WHERE name = ${account}`),
      );
      await Promise.all(runs);
      for (const rows of await Promise.all(plain)) expect(rows[0]?.mark || null).toBe(null);
    }
    expect(await bank.peek(account)).toBe('x'.repeat(40));
  });

  it('loses no query of others when a call that waits behind them is aborted', async () => {
    const single = newSql(server.url, { max: 1 });
    const onSingle = postgresGuard(single, { resource: account });
    const [row] = await single<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
    const before = single`SELECT pg_advisory_xact_lock(77), 'kept' AS value`;
    const holder = await bank.pool.connect();
    try {
      await holder.query('SELECT pg_advisory_lock(77)');
      void before.execute();
      const abort = new AbortController();
      const calls = [1, 2].map(() => onSingle.claim(NEW, { signal: abort.signal }).catch((error) => error));
      await bank.until("SELECT FROM pg_locks WHERE pid = $1 AND locktype = 'advisory' AND NOT granted", [
        row?.pid,
      ]);
      abort.abort('enough');
      expect(await Promise.all(calls)).toEqual(['enough', 'enough']);
      await holder.query('SELECT pg_advisory_unlock(77)');
      expect(await before).toMatchObject([{ value: 'kept' }]);
    } finally {
      await holder.query('SELECT pg_advisory_unlock_all()');
      holder.release();
    }
    // Neither of the two claims was made.
    await guard.run(OLD, () => 0);
    await onSingle.claim(NEW);
  });

  it('touches no transaction that the application begins right after a COMMIT that was refused', async () => {
    await bank.pool.query(
      'CREATE TABLE IF NOT EXISTS deferred_js (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)',
    );
    const single = newSql(server.url, { max: 1 });
    const onSingle = postgresGuard(single, { resource: account });
    let next: Promise<unknown> | undefined;
    const run = onSingle.run(OLD, async (sql) => {
      await sql`INSERT INTO deferred_js VALUES (1), (1)`;
      next = single
        .begin(async (sql) => {
          await write(sql, 'undone');
          throw new Error('changed my mind');
        })
        .catch((error: unknown) => error);
    });
    await expect(run).rejects.toMatchObject({ code: 'unavailable', cause: { code: '23505' } });
    expect(await next).toMatchObject({ message: 'changed my mind' });
    expect(await bank.peek(account)).toBe('');
  });
});

describe('enter inside sql.begin', () => {
  it('holds a newer claim back until the transaction ends, and refuses what is stale', async () => {
    let claimed = false;
    let claim: Promise<void> | undefined;
    await sql.begin(async (tx) => {
      await guard.enter(tx, OLD);
      const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
      claim = guard.claim(NEW).then(() => {
        claimed = true;
      });
      await bank.blockedBy(row?.pid ?? 0);
      await write(tx, 'x');
      expect(claimed).toBe(false);
    });
    await claim;
    const stale = sql.begin(async (tx) => {
      await guard.enter(tx, OLD);
      await write(tx, 'late');
    });
    await expect(stale).rejects.toMatchObject({ code: 'stale-token' });
    await expect(guard.enter(sql, NEW)).rejects.toMatchObject({ code: 'invalid-option' });
    expect(await bank.peek(account)).toBe('x');
  });

  it('works in REPEATABLE READ with a transform of column names', async () => {
    const pascal = newSql(server.url, { transform: postgres.pascal });
    await pascal.begin('ISOLATION LEVEL REPEATABLE READ', async (tx) => {
      await guard.enter(tx, OLD);
      await write(tx, 'x');
    });
    expect(await bank.peek(account)).toBe('x');
  });
});

describe('what the guard cannot work with', () => {
  it.each([
    [{ transform: { row: (row: unknown) => row } }, 'transform.row'],
    [{ transform: { column: (name: string) => `my_${name}` } }, 'transform.column'],
  ])('is refused: %o', (options, field) => {
    const other = newSql(server.url, options as object);
    expect(() => postgresGuard(other, { resource: account })).toThrow(
      expect.objectContaining({ code: 'invalid-option', message: expect.stringContaining(field) }),
    );
  });

  it('is refused: the package, or a reserved connection', async () => {
    const reserved = await sql.reserve();
    reserved.release();
    for (const wrong of [reserved, postgres]) {
      expect(() => postgresGuard(wrong as never, { resource: account })).toThrow(
        expect.objectContaining({ code: 'invalid-option' }),
      );
    }
  });
});
