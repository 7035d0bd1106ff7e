// Readers and writers of one read/write lock on MariaDB, where the contract does not look: statements that leave with
// their check, transactions of the caller's, and many at once.
import { FencingToken, GuardError } from '@lockkeeper/fencing';
import { type MysqlDialect, type MysqlGuard, mysqlGuard } from '@lockkeeper/resource-guard/mysql';
import {
  chunkContaining,
  type MariadbServer,
  startMariadb,
  startTcpProxy,
  type TcpProxy,
} from '@lockkeeper/testkit';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MysqlBank, UPDATE_ACCOUNT } from './mysql-bank.ts';

let server: MariadbServer;
let bank: MysqlBank;
let proxy: TcpProxy;

beforeAll(async () => {
  server = await startMariadb({ own: true });
  bank = await MysqlBank.open(server.url);
  proxy = await startTcpProxy(server.url);
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await proxy?.[Symbol.asyncDispose]();
  await server?.stop();
});

const token = (revision: bigint, shared = false) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}`, shared });
const reader = (revision: bigint) => token(revision, true);
const STALE = { code: 'stale-token' };
const APPEND = 'UPDATE account SET value = CONCAT(value, ?) WHERE name = ?';

let account: string;
let guard: MysqlGuard;

beforeEach(async () => {
  account = await bank.newAccount();
  guard = mysqlGuard(bank.pool, { resource: account });
});

describe('a statement that leaves with its check', () => {
  /** How many transactions were begun while `act` was at work. */
  async function transactions(act: () => Promise<unknown>): Promise<number> {
    let seen = 0;
    const begin = chunkContaining('START TRANSACTION');
    const watch = proxy.hold({
      direction: 'request',
      match: (chunk) => {
        if (begin(chunk)) seen += 1;
        return false;
      },
    });
    await act().finally(() => watch[Symbol.dispose]());
    return seen;
  }

  it('is one message also for a reader beside a newer one, once the state was seen', async () => {
    const through = mysqlGuard(bank.newPool({ host: proxy.host, port: proxy.port }), {
      resource: account,
      dialect: 'mariadb',
    });
    await through.claim(token(1n));
    await through.claim(reader(2n));
    const write = (as: FencingToken) => through.query(as, UPDATE_ACCOUNT, [`${as}`, account]);
    expect(await transactions(() => write(reader(2n)))).toBe(1);
    await guard.claim(reader(3n));
    expect(await transactions(() => write(reader(2n)))).toBe(2);
    for (const as of [2n, 3n, 2n]) {
      expect(await transactions(() => write(reader(as)))).toBe(1);
      expect(await bank.peek(account)).toBe(`${reader(as)}`);
    }
  });

  it('decides like run', async () => {
    await guard.claim(token(3n));
    await guard.claim(reader(5n));
    const late = mysqlGuard(bank.pool, { resource: account });
    const write = (as: FencingToken) => late.query(as, UPDATE_ACCOUNT, [`${as}`, account]);
    await expect(write(token(3n))).rejects.toMatchObject({ ...STALE, current: reader(5n) });
    await expect(write(reader(2n))).rejects.toMatchObject({ ...STALE, current: token(3n) });
    expect(await bank.peek(account)).toBe('');
    await write(reader(3n));
    await write(reader(4n));
    expect(await bank.peek(account)).toBe(`${reader(4n)}`);
    // What this guard saw last is out of date now.
    await guard.claim(token(7n));
    for (const as of [reader(4n), reader(5n)])
      await expect(write(as)).rejects.toMatchObject({ ...STALE, current: token(7n) });
    await guard.seal(token(7n));
    await expect(write(reader(7n))).rejects.toMatchObject({ code: 'sealed' });
    await write(reader(8n));
    const state = { token: reader(8n), sealed: false, writer: { token: token(7n), sealed: true } };
    expect(await late.inspect()).toEqual(state);
  });
});

it.each<MysqlDialect>(['mariadb', 'mysql'])(
  'many readers that write while others claim lose nothing, and all stop at a writer: %s',
  async (dialect) => {
    await guard.claim(token(1n));
    const accepted: string[] = [];
    const atWork = new Set<bigint>();
    let writing: Promise<void> | undefined;
    const reads = async (revision: bigint) => {
      const own = mysqlGuard(bank.newPool({ connectionLimit: 2 }), { resource: account, dialect });
      for (let count = 0; ; count++) {
        const entry = `${revision}.${count} `;
        const as = reader(revision);
        const append = () =>
          count % 3 === 0
            ? own.run(as, (tx) => tx.query(APPEND, [entry, account]))
            : own.query(as, APPEND, [entry, account]);
        try {
          await append();
        } catch (error) {
          if (error instanceof GuardError && error.outcome === 'retry') continue;
          expect(error).toMatchObject(STALE);
          return count;
        }
        accepted.push(entry);
        if (count >= 5) atWork.add(revision);
        // The writer comes when everybody is at work.
        if (atWork.size === 4) writing ??= guard.claim(token(100n));
      }
    };
    const claims = async () => {
      for (let revision = 20n; writing === undefined && revision < 90n; revision++)
        await guard.claim(reader(revision)).catch((error: unknown) => {
          // The writer came while this claim was on its way.
          expect(writing).toBeDefined();
          expect(error).toMatchObject(STALE);
        });
    };
    const claiming = claims();
    const counts = await Promise.all([10n, 13n, 11n, 12n].map(reads));
    await Promise.all([claiming, writing]);
    expect(Math.min(...counts)).toBeGreaterThan(5);
    const entries = (await bank.peek(account)).split(/(?<= )/);
    expect(entries.sort()).toEqual(accepted.sort());
  },
);

it('readers enter beside each other, and hold a writer off', async () => {
  await guard.claim(reader(2n));
  await guard.claim(reader(3n));
  const [older, newer] = [await bank.newConnection(), await bank.newConnection()];
  await older.beginTransaction();
  await newer.beginTransaction();
  await guard.enter(older, reader(2n));
  await guard.enter(newer, reader(3n));
  const [rows] = await older.query('SELECT CONNECTION_ID() AS id');
  const claim = mysqlGuard(bank.newPool(), { resource: account }).claim(token(4n));
  await bank.blockedBy((rows as { id: number }[])[0]?.id as number);
  await older.query(UPDATE_ACCOUNT, ['older', account]);
  await newer.rollback();
  await older.commit();
  await claim;
  expect(await bank.peek(account)).toBe('older');
  for (const late of [2n, 3n]) {
    await older.beginTransaction();
    await expect(guard.enter(older, reader(late))).rejects.toMatchObject(STALE);
    await older.rollback();
  }
});
