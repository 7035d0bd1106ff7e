// What is particular to the guard on PostgreSQL: its table, its clients, its transactions.
import { FencingToken } from '@lockkeeper/fencing';
import { type PostgresQueryable, postgresGuard, postgresGuardSql } from '@lockkeeper/resource-guard/postgres';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accountAccess, Bank } from './account.ts';

let server: PostgresServer;
let bank: Bank;

beforeAll(async () => {
  server = await startPostgres();
  bank = await Bank.open(server.url);
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await server?.stop();
});

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

async function newSchema(): Promise<string> {
  const schema = `schema "${Math.random().toString(36).slice(2)}" ü`;
  await bank.pool.query(`CREATE SCHEMA ${pg.escapeIdentifier(schema)}`);
  return schema;
}

describe('the table', () => {
  it('is created once by many processes that migrate at the same moment', async () => {
    const schema = await newSchema();
    const pools = Array.from({ length: 4 }, () => bank.newPool({ max: 2 }));
    const guards = pools.flatMap((pool) => [1, 2].map(() => postgresGuard(pool, { resource: 'r', schema })));
    await Promise.all(guards.map((guard) => guard.migrate()));
    await guards[0]?.claim(OLD);
    await guards[1]?.migrate();
    await expect(guards[2]?.run(OLD, () => 'kept', { requireClaim: true })).resolves.toBe('kept');
    await Promise.all(pools.map((pool) => pool.end()));
  });

  it('is created once also where another process is about to commit it', async () => {
    const schema = await newSchema();
    const first = bank.newClient();
    await first.connect();
    const pid = (await first.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;
    const query = first.query.bind(first) as (text: string) => Promise<unknown>;
    let second: Promise<void> | undefined;
    const slow = async (text: string): Promise<unknown> => {
      if (text === 'COMMIT') {
        second = postgresGuard(bank.pool, { resource: 'r', schema }).migrate();
        await bank.blockedBy(pid);
      }
      return query(text);
    };
    Object.assign(first, { query: slow });
    await postgresGuard(first, { resource: 'r', schema }).migrate();
    await second;
    await first.end();
  });

  it('missing, is told with the way out, by every verb', async () => {
    const guard = postgresGuard(bank.pool, { resource: 'r', table: 'nowhere' });
    const wayOut = {
      code: 'not-migrated',
      message: expect.stringMatching(/"public"."nowhere".*migrate\(\).*postgresGuardSql/),
    };
    await expect(guard.claim(OLD)).rejects.toMatchObject(wayOut);
    await expect(guard.seal(OLD)).rejects.toMatchObject(wayOut);
    await expect(guard.run(OLD, () => 0)).rejects.toMatchObject(wayOut);
    const noSchema = postgresGuard(bank.pool, { resource: 'r', schema: 'nowhere' });
    await expect(noSchema.claim(OLD)).rejects.toMatchObject({ code: 'not-migrated' });
    await expect(noSchema.migrate()).rejects.toMatchObject({ code: 'unavailable', cause: { code: '3F000' } });
  });

  it('can be made by the printed SQL, and again', async () => {
    const schema = await newSchema();
    const sql = postgresGuardSql({ schema, table: 'my guards' });
    await bank.pool.query(sql);
    await bank.pool.query(sql);
    const guard = postgresGuard(bank.pool, { resource: 'r', schema, table: 'my guards' });
    await guard.claim(OLD);
    expect(await guard.run(OLD, () => 'ran', { requireClaim: true })).toBe('ran');
  });

  it('may be used, and asked for, by a role that may not create tables', async () => {
    const role = `writer_${Math.random().toString(36).slice(2)}`;
    const schema = await newSchema();
    await postgresGuard(bank.pool, { resource: 'r', schema }).migrate();
    const name = pg.escapeIdentifier(schema);
    await bank.pool.query(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${name} TO ${role};
      GRANT SELECT, INSERT, UPDATE ON ${name}.lockkeeper_guards TO ${role}`);
    const pool = bank.newPool({ options: `-c role=${role}` });
    const guard = postgresGuard(pool, { resource: 'r', schema });
    await guard.migrate();
    await guard.claim(OLD);
    expect(await guard.run(OLD, () => 'ran')).toBe('ran');
  });

  it.each(["o'clock", 'back\\slash', 'ünï 😀', '"; DROP TABLE account; --', "\\'", 'a\nb\tc', '$$', '%s'])(
    'keeps the resource %j apart, whatever the string settings',
    async (name) => {
      const resource = `${name} ${Math.random()}`;
      const guards = ['on', 'off'].map((setting) =>
        postgresGuard(
          bank.newPool({
            max: 1,
            options: `-c standard_conforming_strings=${setting} -c bytea_output=escape`,
          }),
          { resource },
        ),
      );
      for (const guard of guards) await guard.claim(NEW);
      for (const guard of guards)
        await expect(guard.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
      const { rows } = await bank.pool.query(
        'SELECT revision FROM public.lockkeeper_guards WHERE resource = $1',
        [resource],
      );
      expect(rows).toEqual([{ revision: '2' }]);
    },
  );

  it('may have a name that looks like a parameter, also for drivers that take only text', async () => {
    const table = `a$1b "$2" ${Math.random()}`;
    const client = bank.newClient();
    await client.connect();
    const textOnly: PostgresQueryable = { query: (text, values) => client.query(text, values) };
    const guard = postgresGuard(Object.assign(Object.create(client), textOnly, { connection: undefined }), {
      resource: 'r',
      table,
    });
    await guard.migrate();
    await guard.claim(OLD);
    expect(await guard.run(OLD, () => 'ran')).toBe('ran');
    expect(await postgresGuard(bank.pool, { resource: 'r', table }).run(OLD, () => 'ran')).toBe('ran');
    await client.end();
  });

  it('with a state that no guard wrote refuses every call, blames no token and keeps no client', async () => {
    const resource = await bank.newAccount();
    const insert = `INSERT INTO lockkeeper_guards VALUES ($1, 'not an id', 1, 'a', false, false)`;
    await bank.pool.query(insert, [resource]);
    const pool = bank.newPool({ max: 1 });
    const guard = postgresGuard(pool, { resource });
    const refused = {
      code: 'unavailable',
      resource,
      message: expect.stringContaining(`guard "${resource}": the stored state is "not an id:1:a 0"`),
    };
    await expect(guard.claim(OLD)).rejects.toMatchObject(refused);
    await expect(guard.seal(OLD)).rejects.toMatchObject(refused);
    await expect(guard.rebase(OLD, { from: token(3n) })).rejects.toMatchObject({ outcome: 'failed' });
    await expect(guard.run(OLD, () => 0)).rejects.toMatchObject(refused);
    await expect(guard.query(OLD, 'SELECT 1')).rejects.toMatchObject(refused);
    await expect(guard.inspect()).rejects.toMatchObject(refused);
    expect([pool.totalCount - pool.idleCount, pool.waitingCount]).toEqual([0, 0]);
  });

  it('has an advisory lock for each resource that no release of this package may change', async () => {
    const guard = postgresGuard(bank.pool, { resource: 'invoices' });
    const { rows } = await guard.run(token(2n ** 63n - 1n), (tx) =>
      tx.query(`SELECT (classid::bigint << 32 | objid::bigint)::text AS key, mode FROM pg_locks
        WHERE locktype = 'advisory' AND objsubid = 1 AND pid = pg_backend_pid()`),
    );
    expect(rows).toEqual([{ key: '782679023686910210', mode: 'ShareLock' }]);
  });

  it('is one table, and one queue, however clients resolve it', async () => {
    const schema = await newSchema();
    const resource = 'shared';
    const guard = postgresGuard(bank.pool, { resource, schema });
    await guard.migrate();
    const elsewhere = bank.newPool({ options: '-c search_path=pg_catalog' });
    const other = postgresGuard(elsewhere, { resource, schema });
    await guard.run(OLD, async (tx) => {
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      const claim = other.claim(NEW);
      await bank.blockedBy(rows[0]?.pid ?? 0);
      claim.catch(() => undefined);
    });
    await expect(guard.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
  });
});

const method = (): void => {};

describe('clients', () => {
  it.each([
    ['nothing', undefined, 'pool is undefined'],
    [
      'a connection string, unshown',
      'postgres://me:secret@localhost/db',
      'pool is a string; expected a Pool or',
    ],
    ['a connection string', 'postgres://localhost/db', 'new Pool({ connectionString })'],
    ['the class instead of an instance', pg.Pool, 'was a class or a tag function passed'],
    ['options of a pool', { connectionString: 'x' }, 'pool is a plain object'],
    ['a Drizzle database', { select: method, execute: method, $client: new pg.Pool() }, '"$client" is one'],
    ['a pg-promise database', { query: method, connect: method, $pool: new pg.Pool() }, '"$pool" is one'],
    ['a transaction of postgres.js', Object.assign(() => 0, { unsafe: method }), 'pass the sql itself'],
    ['a mysql2 pool', { query: method, getConnection: method, on: method }, 'expected a Pool or a Client'],
    [
      'a mysql2 connection',
      { query: method, connect: method, escapeId: method, on: method },
      'expected a Pool',
    ],
    ['an ioredis client', { connect: method, get: method, on: method }, 'expected a Pool or a Client'],
  ])('%s is refused at once, by name', (_, wrong, message) => {
    expect(() => postgresGuard(wrong as never, { resource: 'r' })).toThrow(
      expect.objectContaining({ code: 'invalid-option', message: expect.stringContaining(message) }),
    );
  });

  it.each([
    [{ resource: '' }, 'resource is ""'],
    [
      { resource: 'r', claimTimeoutMs: 0 },
      'claimTimeoutMs is 0; expected whole milliseconds from 1 to 2147483647',
    ],
    [{ resource: 'r', statementTimeoutMs: Number.NaN }, 'statementTimeoutMs is NaN'],
    [{ resource: 'r', idleInTransactionTimeoutMs: 2 ** 31 }, 'idleInTransactionTimeoutMs is 2147483648'],
    [{ resource: 'r', table: '' }, 'table is ""; expected a PostgreSQL name'],
    [{ resource: 'r', schema: 'x'.repeat(64) }, 'expected a PostgreSQL name of 1 to 63 bytes'],
    [undefined, 'resource is undefined'],
  ])('the options %j are refused', (options, message) => {
    expect(() => postgresGuard(bank.pool, options as never)).toThrow(
      expect.objectContaining({ code: 'invalid-option', message: expect.stringContaining(message) }),
    );
  });

  it('one Client serves concurrent calls of several guards, one transaction at a time', async () => {
    const client = bank.newClient();
    await client.connect();
    const accounts = [await bank.newAccount(), await bank.newAccount()];
    const calls = accounts.flatMap((resource) => {
      const guard = postgresGuard(client, { resource });
      const { read, write } = accountAccess(resource);
      return [1, 2, 3].map(() => guard.run(OLD, async (tx) => write(tx, `${await read(tx)}x`)));
    });
    await Promise.all(calls);
    for (const account of accounts) expect(await bank.peek(account)).toBe('xxx');
    await client.end();
  });

  it('a Client inside a transaction of its owner is refused, and the transaction is left alone', async () => {
    const client = bank.newClient();
    await client.connect();
    const resource = await bank.newAccount();
    await client.query('BEGIN');
    await client.query("UPDATE account SET value = 'mine' WHERE name = $1", [resource]);
    const guard = postgresGuard(client, { resource });
    await expect(guard.claim(OLD)).rejects.toMatchObject({
      code: 'invalid-option',
      message: /open transaction.*enter/,
    });
    await client.query('COMMIT');
    expect(await bank.peek(resource)).toBe('mine');
    await guard.claim(OLD);
    await client.end();
  });

  it.each([
    ['BEGIN', true],
    ['BEGIN', false],
    ['BEGIN ISOLATION LEVEL REPEATABLE READ', true],
    ['BEGIN; SELECT nothing', false],
  ])(
    'a transaction left open in the pool, %s, is undone and never committed along (the driver tells: %s)',
    async (begin, tells) => {
      const [account, half] = [await bank.newAccount(), await bank.newAccount()];
      const pool = bank.newPool({ max: 1 });
      // As versions of the driver that cannot.
      if (!tells) pool.on('connect', (client) => Object.assign(client, { getTransactionStatus: undefined }));
      const guard = postgresGuard(pool, { resource: account });
      await guard.claim(OLD);
      const update = 'UPDATE account SET value = $1 WHERE name = $2';
      const calls = [
        () => guard.query(OLD, update, ['kept', account]),
        () => guard.run(OLD, () => 0),
        () => guard.claim(OLD),
        () => guard.inspect(),
      ];
      for (const call of calls) {
        const client = await pool.connect();
        await client.query(begin).catch(() => undefined);
        if (!begin.includes('nothing')) await client.query(update, ['half', half]);
        client.release();
        await call();
        expect(await bank.peek(half)).toBe('');
      }
      expect(await bank.peek(account)).toBe('kept');
    },
  );

  it('a transaction left open before the guard first saw the connection makes no write look applied', async () => {
    const account = await bank.newAccount();
    await postgresGuard(bank.pool, { resource: account }).claim(OLD);
    const pool = bank.newPool({ max: 1 });
    const client = await pool.connect();
    Object.assign(client, { getTransactionStatus: undefined });
    await client.query('BEGIN');
    client.release();
    const guard = postgresGuard(pool, { resource: account });
    const write = (value: string) =>
      guard.query(OLD, 'UPDATE account SET value = $1 WHERE name = $2', [value, account]);
    const refused = { code: 'unavailable', message: expect.stringContaining('open transaction') };
    await expect(write('lost')).rejects.toMatchObject(refused);
    expect(await bank.peek(account)).toBe('');
    expect(await write('kept')).toMatchObject({ rowCount: 1 });
    expect(await bank.peek(account)).toBe('kept');
  });

  it('whose types read every text otherwise are read as the server wrote it', async () => {
    const account = await bank.newAccount();
    const types = { getTypeParser: () => (value: unknown) => `<${value}>` };
    for (const pool of [bank.newPool({ types }), bank.newPool({ binary: true } as pg.PoolConfig)]) {
      const guard = postgresGuard(pool, { resource: account });
      await guard.claim(NEW);
      expect(await guard.inspect()).toMatchObject({ token: { revision: 2n } });
      await expect(guard.claim(OLD)).rejects.toMatchObject({ code: 'stale-token' });
      await expect(guard.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
      const client = await pool.connect();
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await expect(guard.enter(client, OLD)).rejects.toMatchObject({ code: 'stale-token' });
      await guard.enter(client, NEW);
      await client.query('ROLLBACK');
      client.release();
    }
    const { rows } = await postgresGuard(bank.newPool({ types }), { resource: account }).query(
      NEW,
      'SELECT 7 AS n',
    );
    expect(rows).toEqual([{ n: '<7>' }]);
  });

  it('leaves no lock, no transaction and no client behind', async () => {
    const pool = bank.newPool({ max: 2, application_name: 'leftovers' });
    const guard = postgresGuard(pool, { resource: await bank.newAccount() });
    await guard.claim(NEW);
    await guard.run(NEW, (tx) => tx.query('SELECT 1'));
    await expect(guard.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
    await expect(guard.run(NEW, (tx) => tx.query('SELECT 1 / 0'))).rejects.toMatchObject({ code: '22012' });
    await expect(guard.run(NEW, () => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
    await guard.seal(NEW);
    const { rows } = await bank.pool.query(`SELECT state, (SELECT count(*)::int FROM pg_locks
        WHERE pg_locks.pid = activity.pid AND locktype = 'advisory') AS locks
      FROM pg_stat_activity AS activity WHERE application_name = 'leftovers'`);
    expect(rows).toEqual([{ state: 'idle', locks: 0 }]);
    expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0]);
    for (const client of (pool as unknown as { _clients: pg.Client[] })._clients) {
      expect(client.listenerCount('error')).toBe(1);
    }
  });
});

describe('the transaction of a run', () => {
  it('is READ COMMITTED and read-write, with its own limits, whatever the session says', async () => {
    const options = '-c default_transaction_isolation=serializable -c default_transaction_read_only=on';
    const pool = bank.newPool({ max: 1, options });
    const guard = postgresGuard(pool, {
      resource: await bank.newAccount(),
      statementTimeoutMs: 7_000,
      idleInTransactionTimeoutMs: 3_000,
    });
    const settings = await guard.run(OLD, async (tx) => {
      const { rows } = await tx.query(`SELECT current_setting('transaction_isolation') AS isolation,
        current_setting('transaction_read_only') AS read_only, current_setting('statement_timeout') AS statement,
        current_setting('idle_in_transaction_session_timeout') AS idle`);
      return rows[0];
    });
    expect(settings).toEqual({ isolation: 'read committed', read_only: 'off', statement: '7s', idle: '3s' });
    const after = await pool.query('SHOW statement_timeout');
    expect(after.rows).toEqual([{ statement_timeout: '0' }]);
  });

  it('makes claims and seals durable even where the session does not wait for the disk', async () => {
    const schema = await newSchema();
    const name = pg.escapeIdentifier(schema);
    const of = (setting: string) =>
      postgresGuard(bank.newPool({ max: 1, options: `-c synchronous_commit=${setting}` }), {
        resource: 'r',
        schema,
      });
    await of('on').migrate();
    await bank.pool.query(`CREATE TABLE ${name}.seen (setting text);
      CREATE FUNCTION ${name}.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO ${name}.seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
      CREATE TRIGGER look BEFORE INSERT OR UPDATE ON ${name}.lockkeeper_guards
        FOR EACH ROW EXECUTE FUNCTION ${name}.look()`);
    await of('off').claim(token(1n));
    await of('local').seal(token(1n));
    await of('remote_apply').claim(token(2n));
    const seen = await bank.pool.query(`SELECT DISTINCT setting FROM ${name}.seen ORDER BY setting`);
    expect(seen.rows.map(({ setting }) => setting)).toEqual(['on', 'remote_apply']);
  });

  it('takes parameters and runs concurrent statements one after another', async () => {
    const guard = postgresGuard(bank.pool, { resource: await bank.newAccount() });
    const results = await guard.run(OLD, (tx) =>
      Promise.all([
        tx.query<{ n: string }>('SELECT $1::bigint + 1 AS n', [2n ** 53n]),
        tx.query<{ n: string }>({ text: 'SELECT $1::bigint AS n', values: ['7'], name: 'seven' }),
      ]),
    );
    expect(results.map(({ rows }) => rows[0]?.n)).toEqual(['9007199254740993', '7']);
  });

  it('waits for statements that the effect did not wait for', async () => {
    const resource = await bank.newAccount();
    const guard = postgresGuard(bank.pool, { resource });
    await guard.run(OLD, (tx) => {
      accountAccess(resource)
        .write(tx, 'forgotten')
        .catch(() => undefined);
    });
    expect(await bank.peek(resource)).toBe('forgotten');
  });

  it('is closed to a handle that outlives it', async () => {
    const resource = await bank.newAccount();
    const guard = postgresGuard(bank.pool, { resource });
    const { write } = accountAccess(resource);
    const kept = await guard.run(OLD, (tx) => tx);
    await expect(write(kept, 'late')).rejects.toMatchObject({ code: 'unavailable', message: /is over/ });
    expect(await bank.peek(resource)).toBe('');
  });

  it('refuses what follows a COMMIT of the effect, and says that nobody guarded it', async () => {
    const resource = await bank.newAccount();
    const guard = postgresGuard(bank.pool, { resource });
    const { write } = accountAccess(resource);
    const run = guard.run(OLD, async (tx) => {
      await tx.query('COMMIT').catch(() => undefined);
      await write(tx, 'unguarded');
    });
    await expect(run).rejects.toMatchObject({ message: /is over|ended the transaction/ });
    const quiet = guard.run(OLD, (tx) => tx.query('COMMIT').catch(() => undefined));
    await expect(quiet).rejects.toMatchObject({ code: 'unknown', message: /ended the transaction/ });
    expect(await bank.peek(resource)).toBe('');
  });

  it('refuses a row that went ahead without the guard, rather than turn it back', async () => {
    const schema = await newSchema();
    const guard = postgresGuard(bank.pool, { resource: 'r', schema });
    await guard.migrate();
    await guard.claim(OLD);
    const table = `${pg.escapeIdentifier(schema)}.lockkeeper_guards`;
    // Somebody without the lock writes between the guard's look and its write.
    const client = bank.newClient();
    await client.connect();
    const query = client.query.bind(client) as (text: unknown) => Promise<unknown>;
    const interrupted = async (text: unknown): Promise<unknown> => {
      if (String(text).startsWith('UPDATE')) await bank.pool.query(`UPDATE ${table} SET revision = 99`);
      return query(text);
    };
    Object.assign(client, { query: interrupted });
    const late = postgresGuard(client, { resource: 'r', schema });
    await expect(late.claim(NEW)).rejects.toMatchObject({ code: 'retry' });
    await expect(late.claim(NEW)).rejects.toMatchObject({ code: 'stale-token' });
    await client.end();
  });
});

describe('a signal', () => {
  it('that aborts inside an effect undoes the run and frees the pool', async () => {
    const resource = await bank.newAccount();
    const pool = bank.newPool({ max: 1 });
    const guard = postgresGuard(pool, { resource });
    const controller = new AbortController();
    const reason = new Error('no longer wanted');
    const run = guard.run(
      OLD,
      async (tx) => {
        await accountAccess(resource).write(tx, 'unwanted');
        controller.abort(reason);
        await tx.query('SELECT pg_sleep(30)');
      },
      { signal: controller.signal },
    );
    await expect(run).rejects.toBe(reason);
    expect(await guard.run(OLD, () => 'next')).toBe('next');
    expect(await bank.peek(resource)).toBe('');
  });

  it('that aborts while the pool is busy gives the place up', async () => {
    const pool = bank.newPool({ max: 1 });
    const guard = postgresGuard(pool, { resource: await bank.newAccount() });
    const busy = await pool.connect();
    const controller = new AbortController();
    const claim = guard.claim(OLD, { signal: controller.signal });
    controller.abort(new Error('no longer wanted'));
    await expect(claim).rejects.toThrow('no longer wanted');
    busy.release();
    await guard.claim(OLD);
  });

  it('that aborts on a Client leaves it usable once the server has answered', async () => {
    const client = bank.newClient();
    await client.connect();
    const resource = await bank.newAccount();
    const guard = postgresGuard(client, { resource, statementTimeoutMs: 2_000 });
    const controller = new AbortController();
    const run = guard.run(
      OLD,
      async (tx) => {
        await accountAccess(resource).write(tx, 'unwanted');
        const sleeping = tx.query('SELECT pg_sleep(30)');
        controller.abort(new Error('no longer wanted'));
        await sleeping;
      },
      { signal: controller.signal },
    );
    await expect(run).rejects.toThrow('no longer wanted');
    expect(await guard.run(OLD, () => 'next')).toBe('next');
    expect(await bank.peek(resource)).toBe('');
    await client.end();
  });
});
