// The three outcomes on MariaDB, D6: applied, certainly not applied, unknown. Unknown is never called stale.
import { FencingToken } from '@lockkeeper/fencing';
import { type MysqlDialect, type MysqlGuard, mysqlGuard } from '@lockkeeper/resource-guard/mysql';
import {
  chunkContaining,
  type MariadbServer,
  startMariadb,
  startTcpProxy,
  type TcpProxy,
} from '@lockkeeper/testkit';
import type { Pool, RowDataPacket } from 'mysql2/promise';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { idOf, MysqlBank, rowAccess, UPDATE_ACCOUNT } from './mysql-bank.ts';

let server: MariadbServer;
let bank: MysqlBank;
let proxy: TcpProxy;
let proxied: Pool;

beforeAll(async () => {
  server = await startMariadb({ own: true });
  bank = await MysqlBank.open(server.url);
  proxy = await startTcpProxy(server.url);
  const { user, password, database } = server;
  const { hostname, port } = new URL(proxy.url);
  proxied = bank.newPool({ uri: `mysql://${user}:${password}@${hostname}:${port}/${database}` });
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await proxy?.[Symbol.asyncDispose]();
  await server?.stop();
});

/**
 * The next message that contains `text` is the last on its connection. `drop-reply`: the server gets it, the
 * client gets the end of the connection instead of the reply. `drop-request`: the server does not get it.
 */
function lose(text: string, kind: 'drop-reply' | 'drop-request'): void {
  const match = chunkContaining(text);
  const caught =
    kind === 'drop-reply'
      ? proxy.loseReply({ match }).lost
      : proxy.hold({ direction: 'request', match }).held;
  void caught.then(() => proxy.cut());
}

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);
const UNKNOWN = { code: 'unknown', outcome: 'unknown' };
const NOT_APPLIED = { code: 'unavailable', outcome: 'failed' };

let account: string;
/** Past the proxy. */
let direct: MysqlGuard;

beforeEach(async () => {
  account = await bank.newAccount();
  direct = mysqlGuard(bank.pool, { resource: account });
});

function append(through: MysqlGuard, as: FencingToken, entry: string): Promise<void> {
  const { read, write } = rowAccess(account);
  return through.run(as, async (tx) => write(tx, `${await read(tx)}${entry}`));
}

const overwrite = (through: MysqlGuard, as: FencingToken, text: string) =>
  through.query(as, UPDATE_ACCOUNT, [text, account]);

/** What only a message that commits contains. */
const COMMIT: Record<MysqlDialect, string> = { mariadb: 'COMMIT; END', mysql: 'COMMIT' };

describe.each(['mariadb', 'mysql'] as const)('a lost COMMIT, spoken to as %s', (dialect) => {
  const through = () => mysqlGuard(proxied, { resource: account, dialect });

  it('is unknown where the reply was lost, although it was applied, and applied once', async () => {
    await direct.claim(OLD);
    lose(COMMIT[dialect], 'drop-reply');
    await expect(append(through(), OLD, 'x')).rejects.toMatchObject({ ...UNKNOWN, token: OLD });
    expect(await bank.peek(account)).toBe('x');
    await append(through(), OLD, 'y');
    expect(await bank.peek(account)).toBe('xy');
  });

  it('is unknown where it never arrived, although nothing was applied', async () => {
    await direct.claim(OLD);
    lose(COMMIT[dialect], 'drop-request');
    await expect(append(through(), OLD, 'x')).rejects.toMatchObject(UNKNOWN);
    // The next claim waits for the abandoned transaction, so the answer after it is final.
    await direct.claim(NEW);
    expect(await bank.peek(account)).toBe('');
  });

  it.each(['drop-reply', 'drop-request'] as const)(
    'of a claim is unknown (%s); claiming again with the same token settles it',
    async (kind) => {
      await direct.claim(OLD);
      lose(COMMIT[dialect], kind);
      await expect(through().claim(NEW)).rejects.toMatchObject(UNKNOWN);
      await through().claim(NEW);
      await expect(direct.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
    },
  );

  it('of the claim that a first run makes leaves the effect certainly unapplied', async () => {
    await direct.claim(OLD);
    let effects = 0;
    lose(COMMIT[dialect], 'drop-reply');
    const run = through().run(NEW, () => {
      effects += 1;
    });
    await expect(run).rejects.toMatchObject(NOT_APPLIED);
    expect(effects).toBe(0);
  });

  it.each(['drop-reply', 'drop-request'] as const)(
    'is none where the connection was cut at a write (%s): nothing was applied',
    async (kind) => {
      await direct.claim(OLD);
      lose('UPDATE account', kind);
      await expect(append(through(), OLD, 'x')).rejects.toMatchObject(NOT_APPLIED);
      await direct.claim(NEW);
      expect(await bank.peek(account)).toBe('');
    },
  );
});

describe('one statement in one message', () => {
  it('is unknown where its reply was lost, and where it never arrived', async () => {
    const guard = mysqlGuard(proxied, { resource: account });
    await direct.claim(OLD);
    lose('BEGIN NOT ATOMIC', 'drop-reply');
    await expect(overwrite(guard, OLD, 'x')).rejects.toMatchObject({ ...UNKNOWN, token: OLD });
    expect(await bank.peek(account)).toBe('x');
    lose('BEGIN NOT ATOMIC', 'drop-request');
    await expect(overwrite(guard, OLD, 'y')).rejects.toMatchObject(UNKNOWN);
    await direct.claim(NEW);
    expect(await bank.peek(account)).toBe('x');
    await expect(overwrite(guard, OLD, 'z')).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    expect(await bank.peek(account)).toBe('x');
  });

  it.each(['READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ'])(
    'waits for a claim before it, and is refused then, also inside the server: %s',
    async (level) => {
      const pool = bank.newPool({ connectionLimit: 1 });
      await pool.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${level}`);
      await direct.claim(OLD);
      let claim: Promise<void> | undefined;
      let late: Promise<unknown> | undefined;
      await direct.run(OLD, async (tx) => {
        const id = await idOf(tx);
        claim = mysqlGuard(bank.newPool(), { resource: account }).claim(NEW);
        await bank.blockedBy(id);
        const overwriting = overwrite(mysqlGuard(pool, { resource: account }), OLD, 'late');
        late = overwriting.catch((error: unknown) => error);
        const waiting = bank.until(
          'SELECT 1 FROM information_schema.INNODB_TRX HAVING SUM(trx_state = ?) >= 2',
          ['LOCK WAIT'],
        );
        await Promise.race([waiting, late]);
      });
      await claim;
      expect(await late).toMatchObject({ code: 'stale-token', current: NEW });
      expect(await bank.peek(account)).toBe('');
    },
  );

  it('tells an error of the statement from one of the guard, and undoes it', async () => {
    await direct.claim(OLD);
    const twice = direct.query(OLD, "INSERT INTO account VALUES (?, 'x')", [account]);
    await expect(twice).rejects.toMatchObject({ code: 'ER_DUP_ENTRY', errno: 1062 });
    const slow = mysqlGuard(bank.pool, { resource: account, statementTimeoutMs: 100 });
    const sleeping = slow.query(OLD, 'UPDATE account SET value = SLEEP(30) WHERE name = ?', [account]);
    await expect(sleeping).rejects.toMatchObject({ code: 'timeout', outcome: 'failed' });
    expect(await bank.peek(account)).toBe('');
    await direct.claim(NEW);
  });

  it('gives what the driver would: rows, affectedRows, insertId; text of any kind arrives as it is', async () => {
    await bank.pool.query(
      'CREATE TABLE IF NOT EXISTS numbered (id INT AUTO_INCREMENT PRIMARY KEY, text LONGTEXT)',
    );
    const text = 'it\'s "\\ä€😀 `?` \n; COMMIT';
    const [inserted] = await direct.query(OLD, 'INSERT INTO numbered (text) VALUES (?), (?)', [text, 'b']);
    expect(inserted).toMatchObject({ affectedRows: 2, insertId: expect.any(Number) });
    const { insertId } = inserted as { insertId: number };
    const [rows] = await direct.query(OLD, 'SELECT text FROM numbered WHERE id = ?', [insertId]);
    expect(rows).toEqual([{ text }]);
    const [updated] = await direct.query(OLD, 'UPDATE numbered SET text = ?', ['c']);
    expect(updated).toMatchObject({ affectedRows: 2, insertId: 0 });
    const [none] = await direct.query(OLD, 'DELETE FROM numbered WHERE id = 0');
    expect(none).toMatchObject({ affectedRows: 0 });
  });
});

describe('a connection lost before COMMIT', () => {
  it('means not applied: killed by the server between two statements', async () => {
    await direct.claim(OLD);
    const run = direct.run(OLD, async (tx) => {
      await rowAccess(account).write(tx, 'x');
      await bank.pool.query(`KILL ${await idOf(tx)}`);
      await rowAccess(account).write(tx, 'y');
    });
    await expect(run).rejects.toMatchObject(NOT_APPLIED);
    expect(await bank.peek(account)).toBe('');
    await append(direct, OLD, 'y');
    expect(await bank.peek(account)).toBe('y');
  });

  it('means not applied also where the effect goes on regardless', async () => {
    await direct.claim(OLD);
    lose('UPDATE account', 'drop-request');
    const run = mysqlGuard(proxied, { resource: account }).run(OLD, async (tx) => {
      await rowAccess(account)
        .write(tx, 'x')
        .catch(() => undefined);
      return 'done';
    });
    await expect(run).rejects.toMatchObject(NOT_APPLIED);
  });

  it('is unavailable where no connection can be had', async () => {
    const nowhere = bank.newPool({ uri: 'mysql://nobody@127.0.0.1:1/none' });
    const unreachable = mysqlGuard(nowhere, { resource: account });
    await expect(unreachable.claim(OLD)).rejects.toMatchObject(NOT_APPLIED);
    await expect(unreachable.query(OLD, 'DO 0')).rejects.toMatchObject(NOT_APPLIED);
  });
});

describe('what the server refuses', () => {
  it('is retry at a deadlock, with nothing applied, also where the effect swallows it and goes on', async () => {
    const other = await bank.newAccount();
    await direct.claim(OLD);
    let arrived = 0;
    let bothHere: () => void = () => {};
    const both = new Promise<void>((resolve) => (bothHere = resolve));
    const crossing = (first: string, second: string) =>
      direct.run(OLD, async (tx) => {
        await tx.query(UPDATE_ACCOUNT, ['x', first]);
        arrived += 1;
        if (arrived === 2) bothHere();
        await both;
        // The server has undone the transaction: what follows would be applied on its own, unguarded.
        await tx.query(UPDATE_ACCOUNT, ['x', second]).catch(() => undefined);
        await tx.query(UPDATE_ACCOUNT, ['after', first]).catch(() => undefined);
      });
    const endings = await Promise.allSettled([crossing(account, other), crossing(other, account)]);
    const reasons = endings.flatMap((ending) => (ending.status === 'rejected' ? [ending.reason] : []));
    expect(reasons).toMatchObject([{ code: 'retry', outcome: 'retry', cause: { errno: 1213 } }]);
    const values = [await bank.peek(account), await bank.peek(other)];
    expect(values.sort()).toEqual(['after', 'x']);
  });

  it("comes to the effect as the driver's own error, which the effect may survive", async () => {
    await direct.run(OLD, async (tx) => {
      await rowAccess(account).write(tx, 'x');
      const twice = tx.query('INSERT INTO account VALUES (?, "")', [account]);
      await expect(twice).rejects.toMatchObject({ code: 'ER_DUP_ENTRY' });
      const undefinedValue = tx.execute('SELECT ?', [undefined]);
      await expect(undefinedValue).rejects.toThrow(/undefined/);
    });
    expect(await bank.peek(account)).toBe('x');
  });
});

describe('limits', () => {
  it('a claim gives up after claimTimeoutMs, and the run in flight is not disturbed', async () => {
    await direct.claim(OLD);
    await direct.run(OLD, async (tx) => {
      for (const dialect of ['mariadb', 'mysql'] as const) {
        const hasty = mysqlGuard(bank.newPool(), { resource: account, claimTimeoutMs: 100, dialect });
        await expect(hasty.claim(NEW)).rejects.toMatchObject({ code: 'timeout', outcome: 'failed' });
      }
      await rowAccess(account).write(tx, 'kept');
    });
    expect(await bank.peek(account)).toBe('kept');
    await direct.claim(NEW);
  });

  it.each(['mariadb', 'mysql'] as const)(
    'a frozen run is ended, and a claim goes on (%s)',
    async (dialect) => {
      const guard = mysqlGuard(bank.newPool(), {
        resource: account,
        idleInTransactionTimeoutMs: 2_000,
        dialect,
      });
      await direct.claim(OLD);
      let wake: () => void = () => {};
      let late: Promise<unknown> | undefined;
      let wrote: () => void = () => {};
      const written = new Promise<void>((resolve) => (wrote = resolve));
      const frozen = guard.run(OLD, async (tx) => {
        await rowAccess(account).write(tx, 'undone');
        wrote();
        late = new Promise<void>((resolve) => (wake = resolve)).then(() =>
          rowAccess(account).write(tx, 'late'),
        );
        return late;
      });
      const ending = expect(frozen).rejects.toMatchObject(NOT_APPLIED);
      await written;
      await direct.claim(NEW);
      await append(direct, NEW, 'new');
      await ending;
      wake();
      await expect(late).rejects.toMatchObject(NOT_APPLIED);
      expect(await bank.peek(account)).toBe('new');
    },
  );

  it.each(['mariadb', 'mysql'] as const)(
    'the session is left with the settings it had (%s)',
    async (dialect) => {
      const pool = bank.newPool({ connectionLimit: 1 });
      await pool.query('SET SESSION innodb_lock_wait_timeout = 33, SESSION wait_timeout = 3333');
      await pool.query('SET SESSION idle_transaction_timeout = 44, SESSION max_statement_time = 55.5');
      const names =
        'CONNECTION_ID(), @@innodb_lock_wait_timeout, @@wait_timeout, @@idle_transaction_timeout, @@idle_write_transaction_timeout, @@max_statement_time';
      const settings = async () => (await pool.query<RowDataPacket[]>(`SELECT ${names}`))[0];
      const before = await settings();
      const guard = mysqlGuard(pool, { resource: account, dialect });
      await guard.claim(OLD);
      await guard.run(OLD, async (tx) => {
        expect((await tx.query(`SELECT ${names}`))[0]).not.toEqual(before);
      });
      await expect(guard.run(OLD, (tx) => tx.query('SELECT nothing'))).rejects.toMatchObject({ errno: 1054 });
      await expect(guard.query(OLD, 'SELECT nothing')).rejects.toMatchObject({ errno: 1054 });
      await guard.query(OLD, 'DO 0');
      await guard.seal(OLD);
      await expect(guard.run(OLD, () => 0)).rejects.toMatchObject({ code: 'sealed' });
      expect(await settings()).toEqual(before);
    },
  );
});
