// The guard's own promises on MariaDB beyond the contract: transactions of the caller's, effects that leave
// theirs, isolation levels, migration, and what is refused before anything is sent.
import { FencingToken } from '@lockkeeper/fencing';
import {
  type MysqlGuard,
  type MysqlTransaction,
  mysqlGuard,
  mysqlGuardSql,
} from '@lockkeeper/resource-guard/mysql';
import { type MariadbServer, startMariadb } from '@lockkeeper/testkit';
import callback from 'mysql2';
import type { Connection, PoolOptions, RowDataPacket } from 'mysql2/promise';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { idOf, MysqlBank, rowAccess, UPDATE_ACCOUNT } from './mysql-bank.ts';

let server: MariadbServer;
let bank: MysqlBank;

beforeAll(async () => {
  server = await startMariadb({ own: true });
  bank = await MysqlBank.open(server.url);
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await server?.stop();
});

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

let account: string;
let guard: MysqlGuard;
let write: (tx: MysqlTransaction, value: string) => Promise<void>;

beforeEach(async () => {
  account = await bank.newAccount();
  guard = mysqlGuard(bank.pool, { resource: account });
  write = rowAccess(account).write;
  await guard.claim(OLD);
});

/** The state as anybody reads it. */
async function read(connection: Connection): Promise<string> {
  const [rows] = await connection.query<RowDataPacket[]>('SELECT value FROM account WHERE name = ?', [
    account,
  ]);
  return rows[0]?.['value'];
}

const ISOLATION = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;

describe('two connections race, D9', () => {
  it.each(ISOLATION)('a run that waited for a claim reads what was accepted before it: %s', async (level) => {
    const pool = bank.newPool({ connectionLimit: 1 });
    await pool.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${level}`);
    const racing = mysqlGuard(pool, { resource: account });
    let claim: Promise<void> | undefined;
    let behind: Promise<string> | undefined;
    await guard.run(OLD, async (tx) => {
      const id = await idOf(tx);
      claim = mysqlGuard(bank.newPool(), { resource: account }).claim(NEW);
      await bank.blockedBy(id);
      // Opens its transaction now, and is let in after the write below and the claim.
      behind = racing.run(NEW, (own) => rowAccess(account).read(own), { requireClaim: true });
      await bank.until('SELECT 1 FROM information_schema.INNODB_TRX HAVING SUM(trx_state = ?) >= 2', [
        'LOCK WAIT',
      ]);
      await write(tx, 'accepted');
    });
    await claim;
    expect(await behind).toBe('accepted');
  });

  it('the guard waits also where both writers are connections of one process', async () => {
    const [one, two] = [await bank.newConnection(), await bank.newConnection()];
    const [first, second] = [one, two].map((each) => mysqlGuard(each, { resource: account }));
    const log: string[] = [];
    const older = first?.run(OLD, async (tx) => {
      const claim = second?.claim(NEW).then(() => log.push('claimed'));
      await bank.blockedBy(await idOf(tx));
      await write(tx, 'old');
      log.push('wrote');
      return { claim };
    });
    await (await older)?.claim;
    expect(log).toEqual(['wrote', 'claimed']);
    await expect(first?.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
  });
});

describe("enter, in a transaction of the caller's", () => {
  it.each(ISOLATION)('holds a newer claim back until COMMIT: %s', async (level) => {
    const connection = await bank.newConnection();
    await connection.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${level}`);
    await connection.beginTransaction();
    await guard.enter(connection, OLD);
    const log: string[] = [];
    const claim = mysqlGuard(bank.newPool(), { resource: account })
      .claim(NEW)
      .then(() => log.push('claimed'));
    await bank.blockedBy(connection.threadId);
    await connection.query(UPDATE_ACCOUNT, ['mine', account]);
    log.push('wrote');
    await connection.commit();
    await claim;
    expect(log).toEqual(['wrote', 'claimed']);
    await connection.beginTransaction();
    await expect(guard.enter(connection, OLD)).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    await guard.enter(connection, NEW);
    expect(await read(connection)).toBe('mine');
    await connection.rollback();
  });

  it('refuses a snapshot from before the claim, which would read old data', async () => {
    const connection = await bank.newConnection();
    await connection.beginTransaction();
    expect(await read(connection)).toBe('');
    await guard.run(OLD, (tx) => write(tx, 'accepted later'));
    await guard.claim(NEW);
    await expect(guard.enter(connection, NEW)).rejects.toMatchObject({ code: 'retry', outcome: 'retry' });
    await connection.rollback();
    await connection.beginTransaction();
    await guard.enter(connection, NEW);
    expect(await read(connection)).toBe('accepted later');
    await connection.commit();
  });

  it('refuses a connection without a transaction, an unclaimed token, and what is no connection', async () => {
    const connection = await bank.newConnection();
    const noTransaction = { code: 'invalid-option', message: /START TRANSACTION/ };
    await expect(guard.enter(connection, OLD)).rejects.toMatchObject({
      ...noTransaction,
      message: expect.stringMatching(noTransaction.message),
    });
    await connection.beginTransaction();
    await expect(guard.enter(connection, NEW)).rejects.toMatchObject({ code: 'unclaimed' });
    await connection.rollback();
    const invalid = { code: 'invalid-option' };
    await expect(guard.enter(bank.pool, OLD)).rejects.toMatchObject(invalid);
    await expect(guard.enter({} as never, OLD)).rejects.toMatchObject(invalid);
  });

  it('works through adapters that give the rows, or an object with the rows', async () => {
    for (const shape of [(rows: unknown) => rows, (rows: unknown) => ({ rows })]) {
      const connection = await bank.newConnection();
      await connection.beginTransaction();
      const adapter = { query: async (sql: string) => shape((await connection.query(sql))[0]) };
      await guard.enter(adapter, OLD);
      await expect(guard.enter(adapter, NEW)).rejects.toMatchObject({ code: 'unclaimed' });
      await connection.rollback();
      await expect(guard.enter(adapter, OLD)).rejects.toMatchObject({ code: 'invalid-option' });
    }
  });
});

describe('an effect that would leave its transaction', () => {
  it.each([
    'COMMIT',
    'ROLLBACK',
    'COMMIT AND CHAIN',
    'START TRANSACTION',
    'BEGIN',
    'XA START "x"',
    'ALTER TABLE account COMMENT "x"',
    'CREATE TABLE IF NOT EXISTS leftover (a INT)',
    'TRUNCATE account',
    'LOCK TABLES account WRITE',
    '/*!40000 COMMIT */',
    '/* a */ -- b\n # c\n commit',
  ])('by %j is refused before it is sent, and its writes stay in the transaction', async (statement) => {
    const mine = new Error('mine');
    const run = guard.run(OLD, async (tx) => {
      await write(tx, 'undone');
      const refused = { code: 'invalid-option', message: expect.stringContaining('query is') };
      await expect(tx.query(statement)).rejects.toMatchObject(refused);
      await expect(tx.execute({ sql: statement })).rejects.toMatchObject(refused);
      throw mine;
    });
    await expect(run).rejects.toBe(mine);
    await expect(guard.query(OLD, statement)).rejects.toMatchObject({ code: 'invalid-option' });
    expect(await bank.peek(account)).toBe('');
  });

  it.each([
    ['CALL escape_by_commit()', ['COMMIT']],
    ['CALL escape_by_chain()', ['COMMIT AND CHAIN']],
    ['CALL escape_by_ddl()', ['CREATE TABLE IF NOT EXISTS leftover (a INT)']],
  ])('by a procedure, %s, is told so, and its late write is not applied', async (call, body) => {
    const name = call.slice('CALL '.length);
    await bank.pool.query(`CREATE OR REPLACE PROCEDURE ${name} BEGIN ${body.join('; ')}; END`);
    let escaped: () => void = () => {};
    const atLarge = new Promise<void>((resolve) => (escaped = resolve));
    let goOn: () => void = () => {};
    const overtaken = new Promise<void>((resolve) => (goOn = resolve));
    const old = guard
      .run(OLD, async (tx) => {
        await tx.query(call).catch(() => undefined);
        escaped();
        await overtaken;
        await write(tx, 'late').catch(() => undefined);
        await tx.query(call).catch(() => undefined);
        return 'done';
      })
      .catch((error: unknown) => error);
    await atLarge;
    const elsewhere = mysqlGuard(bank.newPool(), { resource: account });
    const claim = elsewhere.claim(NEW);
    if (call.includes('chain')) goOn();
    await claim;
    await elsewhere.run(NEW, (tx) => write(tx, 'new'));
    goOn();
    expect(await old).toMatchObject({
      code: 'unknown',
      message: expect.stringContaining('ended the transaction'),
    });
    expect(await bank.peek(account)).toBe('new');
  });

  it('in one statement, by a procedure, is unknown', async () => {
    await bank.pool.query('CREATE OR REPLACE PROCEDURE escape_by_commit() BEGIN COMMIT; END');
    const ended = { code: 'unknown', message: expect.stringContaining('ended the transaction') };
    await expect(guard.query(OLD, 'CALL escape_by_commit()')).rejects.toMatchObject(ended);
    await expect(guard.query(OLD, 'DO 0; COMMIT')).rejects.toMatchObject({ errno: 1064 });
  });

  it.each(['mariadb', 'mysql'] as const)(
    'behind the back of the guard cannot commit what it writes then (%s)',
    async (dialect) => {
      const connection = await bank.newConnection();
      const own = mysqlGuard(connection, { resource: account, dialect });
      const run = own.run(OLD, async (tx) => {
        await connection.query('ROLLBACK AND CHAIN');
        await guard.claim(NEW);
        await write(tx, 'late');
      });
      await expect(run).rejects.toMatchObject({
        code: 'unknown',
        message: expect.stringContaining('ended the transaction'),
      });
      expect(await bank.peek(account)).toBe('');
      // Nothing is left open on the connection.
      expect(await own.run(NEW, () => 'next')).toBe('next');
    },
  );

  it('is unknown also where the effect fails after, or had swallowed an error before', async () => {
    await bank.pool.query('CREATE OR REPLACE PROCEDURE escape_by_commit() BEGIN COMMIT; END');
    const cause = new Error('of the effect');
    const failed = guard.run(OLD, async (tx) => {
      await tx.query('SELECT * FROM nowhere').catch(() => undefined);
      await write(tx, 'early');
      await tx.query('CALL escape_by_commit()').catch(() => undefined);
      throw cause;
    });
    await expect(failed).rejects.toMatchObject({ code: 'unknown', cause });
    expect(await bank.peek(account)).toBe('early');
  });

  it("cannot lead the connection to another database's guard, nor change a password", async () => {
    await guard.run(OLD, async (tx) => {
      for (const statement of ['USE mysql', "SET PASSWORD = PASSWORD('x')", 'set  password for a = b']) {
        await expect(tx.query(statement)).rejects.toMatchObject({ code: 'invalid-option' });
      }
    });
  });

  it('is not suspected for savepoints, temporary tables, settings or procedures that stay', async () => {
    await bank.pool.query('CREATE OR REPLACE PROCEDURE stay() BEGIN SELECT 7 AS seven; END');
    await guard.run(OLD, async (tx) => {
      for (const statement of [
        'CALL stay()',
        'SAVEPOINT a',
        'CALL stay()',
        'ROLLBACK TO SAVEPOINT a',
        'RELEASE SAVEPOINT a',
        'CREATE TEMPORARY TABLE mine (a INT)',
        'DROP TEMPORARY TABLE mine',
        'SET @mine = 1',
        '(SELECT 1)',
        "PREPARE seven FROM 'SELECT 7'",
        'EXECUTE seven',
        'DEALLOCATE PREPARE seven',
      ])
        await tx.query(statement);
      await write(tx, 'kept');
    });
    expect(await bank.peek(account)).toBe('kept');
  });

  it('cannot send several statements at once: such a pool is refused', async () => {
    const loose = mysqlGuard(bank.newPool({ multipleStatements: true }), { resource: account });
    const refused = { code: 'invalid-option', message: expect.stringContaining('multipleStatements') };
    await expect(loose.run(OLD, () => 0)).rejects.toMatchObject(refused);
    await expect(loose.query(OLD, 'DO 0')).rejects.toMatchObject(refused);
    await guard.run(OLD, async (tx) => {
      await expect(tx.query(`DO 0; COMMIT`)).rejects.toMatchObject({ errno: 1064 });
    });
  });
});

describe('a connection of the caller', () => {
  it('inside an open transaction is refused, which START TRANSACTION would have committed', async () => {
    const connection = await bank.newConnection();
    const own = mysqlGuard(connection, { resource: account });
    await connection.beginTransaction();
    await connection.query(UPDATE_ACCOUNT, ['mine', account]);
    await expect(own.run(OLD, () => 0)).rejects.toMatchObject({
      code: 'invalid-option',
      message: expect.stringContaining('guard.enter'),
    });
    await connection.rollback();
    expect(await bank.peek(account)).toBe('');
    expect(await own.run(OLD, () => 'ran')).toBe('ran');
  });

  it('inside an effect refuses every call that would wait for that effect', async () => {
    const connection = await bank.newConnection();
    const own = mysqlGuard(connection, { resource: account });
    const inside = { code: 'invalid-option', message: expect.stringMatching(/inside.*effect.*handle/) };
    await own.run(OLD, async () => {
      for (const call of [own.claim(OLD), own.seal(OLD), own.run(OLD, () => 0), own.query(OLD, 'DO 0')])
        await expect(call).rejects.toMatchObject(inside);
      await expect(own.inspect()).rejects.toMatchObject(inside);
      await expect(own.migrate()).rejects.toMatchObject(inside);
    });
    await guard.run(OLD, async () => {
      await expect(guard.query(OLD, 'DO 0')).rejects.toMatchObject(inside);
      expect(await guard.inspect()).toMatchObject({ token: OLD });
    });
  });
});

describe('a pool', () => {
  it.each(['mariadb', 'mysql'] as const)(
    'with a transaction that somebody left open: it is undone and never committed along (%s)',
    async (dialect) => {
      const half = await bank.newAccount();
      const pool = bank.newPool({ connectionLimit: 1 });
      const own = mysqlGuard(pool, { resource: account, dialect });
      const calls = [
        () => own.query(OLD, UPDATE_ACCOUNT, ['kept', account]),
        () => own.run(OLD, () => 0),
        () => own.claim(OLD),
        () => own.inspect(),
      ];
      for (const call of calls) {
        const connection = await pool.getConnection();
        await connection.beginTransaction();
        await connection.query(UPDATE_ACCOUNT, ['half', half]);
        connection.release();
        await call();
        expect(await bank.peek(half)).toBe('');
      }
      expect(await bank.peek(account)).toBe('kept');
    },
  );

  it.each<[string, PoolOptions]>([
    ['nestTables', { nestTables: true } as PoolOptions],
    ['rowsAsArray', { rowsAsArray: true }],
    ['typeCast', { typeCast: (_, next) => `<${next()}>` }],
  ])('may give rows in any form: %s', async (_, options) => {
    const pool = bank.newPool(options);
    const own = mysqlGuard(pool, { resource: account });
    await own.claim(NEW);
    const insert = 'INSERT INTO account VALUES (?, ?)';
    const [result] = await own.query(NEW, insert, [`${account} too`, '']);
    expect(result).toMatchObject({ affectedRows: 1, insertId: 0 });
    await expect(own.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
    const connection = await pool.getConnection();
    await connection.beginTransaction();
    await expect(own.enter(connection, OLD)).rejects.toMatchObject({ code: 'stale-token' });
    await own.enter(connection, NEW);
    await connection.rollback();
    connection.release();
  });
});

describe('query, one statement', () => {
  it('takes whatever the server takes in one packet', async () => {
    const [[limit]] = await bank.pool.query<RowDataPacket[]>('SELECT @@max_allowed_packet AS bytes');
    const value = 'x'.repeat(Number(limit?.['bytes']) * 0.6);
    const [result] = await guard.query(OLD, UPDATE_ACCOUNT, [value, account]);
    expect(result).toMatchObject({ affectedRows: 1 });
    expect((await bank.peek(account)).length).toBe(value.length);
  });

  it('advances like a run, or refuses an unclaimed token', async () => {
    const strict = guard.query(NEW, UPDATE_ACCOUNT, ['x', account], { requireClaim: true });
    await expect(strict).rejects.toMatchObject({ code: 'unclaimed' });
    await guard.query(NEW, UPDATE_ACCOUNT, ['new', account]);
    const late = guard.query(OLD, UPDATE_ACCOUNT, ['late', account]);
    await expect(late).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    const huge = token(2n ** 63n - 1n);
    await guard.query(huge, UPDATE_ACCOUNT, ['huge', account]);
    await expect(guard.query(token(2n ** 63n - 2n), 'DO 0')).rejects.toMatchObject({ code: 'stale-token' });
    await guard.seal(huge);
    await expect(guard.query(huge, 'DO 0')).rejects.toMatchObject({ code: 'sealed' });
    expect(await bank.peek(account)).toBe('huge');
  });

  it('never takes the state of the call before for its own', async () => {
    const pool = bank.newPool({ connectionLimit: 1 });
    await mysqlGuard(pool, { resource: account }).query(OLD, 'DO 0');
    const untouched = mysqlGuard(pool, { resource: `${account}, another` });
    await expect(untouched.query(OLD, 'DO 0', [], { requireClaim: true })).rejects.toMatchObject({
      code: 'unclaimed',
    });
  });
});

describe('the table', () => {
  it('may be named, is made by many at once, and its absence is told', async () => {
    await bank.pool.query('CREATE DATABASE IF NOT EXISTS elsewhere');
    const named = { resource: account, database: 'elsewhere', table: 'odd `name' };
    const guards = Array.from({ length: 6 }, () => mysqlGuard(bank.pool, named));
    const missing = { code: 'not-migrated', message: expect.stringContaining('migrate()') };
    await expect(guards[0]?.claim(OLD)).rejects.toMatchObject(missing);
    await expect(guards[0]?.run(OLD, () => 0)).rejects.toMatchObject(missing);
    await expect(guards[0]?.query(OLD, 'DO 0')).rejects.toMatchObject(missing);
    await Promise.all(guards.map((each) => each.migrate()));
    await guards[0]?.claim(NEW);
    await expect(guards[1]?.claim(OLD)).rejects.toMatchObject({ code: 'stale-token' });
    expect(mysqlGuardSql(named)).toContain('`elsewhere`.`odd ``name`');
  });

  it('of an engine without transactions is refused by migrate', async () => {
    await bank.pool.query(mysqlGuardSql({ table: 'loose' }).replace(/ENGINE=.*/, 'ENGINE=Aria'));
    const loose = mysqlGuard(bank.pool, { resource: account, table: 'loose' });
    await expect(loose.migrate()).rejects.toMatchObject({
      code: 'not-migrated',
      message: expect.stringContaining('Aria'),
    });
  });

  it.each(['mariadb', 'mysql'] as const)(
    'with a state that no guard wrote refuses every call, and blames no token (%s)',
    async (dialect) => {
      const update = "UPDATE lockkeeper_guards SET lineage = 'not an id' WHERE resource = ?";
      await bank.pool.query(update, [account]);
      const own = mysqlGuard(bank.newPool({ connectionLimit: 1 }), { resource: account, dialect });
      const refused = {
        code: 'unavailable',
        resource: account,
        message: expect.stringContaining(`guard "${account}": the stored state is "not an id:1:a1 0"`),
      };
      await expect(own.claim(OLD)).rejects.toMatchObject(refused);
      await expect(own.seal(OLD)).rejects.toMatchObject(refused);
      await expect(own.run(OLD, () => 0)).rejects.toMatchObject(refused);
      await expect(own.query(OLD, 'DO 0')).rejects.toMatchObject(refused);
      await expect(own.inspect()).rejects.toMatchObject(refused);
    },
  );

  it('tells resources apart byte by byte', async () => {
    const names = ['Ärger', 'ärger', 'arger', 'ärger ', "'; DROP", '\u{1F600}'];
    for (const [index, name] of names.entries()) {
      await mysqlGuard(bank.pool, { resource: `${account}${name}` }).claim(token(BigInt(index + 1)));
    }
    for (const [index, name] of names.entries()) {
      const state = await mysqlGuard(bank.pool, { resource: `${account}${name}` }).inspect();
      expect(`${state?.token}`).toBe(`${token(BigInt(index + 1))}`);
    }
  });
});

it('works on a pool whose options change what results look like', async () => {
  const pool = bank.newPool({
    rowsAsArray: true,
    namedPlaceholders: true,
    bigNumberStrings: true,
    supportBigNumbers: true,
    typeCast: () => 'cast',
    charset: 'latin1',
  });
  const odd = mysqlGuard(pool, { resource: account });
  await odd.claim(token(7n));
  expect(`${(await odd.inspect())?.token}`).toBe(`${token(7n)}`);
  await odd.run(token(7n), (tx) =>
    tx.query('UPDATE account SET value = :value WHERE name = :name', { value: 'é', name: account }),
  );
  expect(await bank.peek(account)).toBe('é');
  await odd.query(token(7n), 'UPDATE account SET value = :value WHERE name = :name', {
    value: 'è',
    name: account,
  });
  expect(await bank.peek(account)).toBe('è');
  await bank.pool.query('CREATE TABLE IF NOT EXISTS counted (id INT AUTO_INCREMENT PRIMARY KEY, a INT)');
  const [inserted] = await odd.query(token(7n), 'INSERT INTO counted (a) VALUES (1), (2)');
  expect(inserted).toMatchObject({ affectedRows: 2, insertId: 1 });
  expect((await odd.query(token(7n), 'SELECT a FROM counted'))[0]).toEqual([['cast'], ['cast']]);
  await expect(odd.query(OLD, 'DO 0')).rejects.toMatchObject({ code: 'stale-token', current: token(7n) });
});

it('refuses what it cannot use, naming field and value', () => {
  const open = (pool: unknown, options: object = {}) =>
    expect(() => mysqlGuard(pool as never, { resource: 'r', ...options }));
  const calling = callback.createPool(server.url);
  open(calling).toThrow(/pool is .*promise\(\)/);
  calling.end();
  open('mysql://user:secret@host/db').toThrow(/pool is a string/);
  open('mysql://user:secret@host/db').not.toThrow(/secret/);
  open(undefined).toThrow(/pool is undefined/);
  open(bank.pool, { resource: '' }).toThrow(/resource is ""/);
  open(bank.pool, { claimTimeoutMs: 0.5 }).toThrow(/claimTimeoutMs is 0.5/);
  open(bank.pool, { table: '' }).toThrow(/table is ""/);
  open(bank.pool, { dialect: 'oracle' }).toThrow(/dialect is "oracle"/);
});
