// The trigger for writers who forget the guard: it lets a guarded write pass whichever way it came, and stops or
// notes every other one, also the one that carries a mark it has no right to.
import { FencingToken } from '@lockkeeper/fencing';
import {
  type PostgresGuard,
  type PostgresGuardTriggerOptions,
  postgresGuard,
  postgresGuardTriggerSql,
} from '@lockkeeper/resource-guard/postgres';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Bank } from './account.ts';

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
const UPDATE = 'UPDATE account SET value = $1 WHERE name = $2';
const LEVELS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'];

const DROP = postgresGuardTriggerSql({ mode: 'audit', resource: 'any', on: { table: 'account' } }).drop;

/** With what JSON and SQL have to escape, since the trigger finds the lock's key by itself. */
let account: string;
let guard: PostgresGuard;

beforeEach(async () => {
  await bank.pool.query(DROP);
  account = `${await bank.newAccount()} "\\\t'é💡`;
  await bank.pool.query("INSERT INTO account VALUES ($1, '')", [account]);
  guard = postgresGuard(bank.pool, { resource: account });
  await guard.claim(OLD);
});

type Watch =
  | { readonly mode: 'enforce' | 'audit'; readonly resource: string }
  | { readonly mode: 'enforce' | 'audit'; readonly resourceColumn: string };

async function install(watch: Watch): Promise<void> {
  const { install } = postgresGuardTriggerSql({ ...watch, on: { table: 'account' } });
  await bank.pool.query(install);
}

const unguarded = (value: string) => bank.pool.query(UPDATE, [value, account]);
const NO_TURN = { code: 'LK001', message: expect.stringMatching(/account.*guard.*no turn/) };

/** In a transaction of its own, whose end is COMMIT. */
async function inTransaction(level: string, body: (tx: pg.PoolClient) => Promise<unknown>): Promise<void> {
  const tx = await bank.pool.connect();
  try {
    await tx.query(`BEGIN ISOLATION LEVEL ${level}`);
    await body(tx);
    await tx.query('COMMIT');
  } catch (error) {
    await tx.query('ROLLBACK');
    throw error;
  } finally {
    tx.release();
  }
}

describe.each([
  ['for the whole table', () => ({ resource: account })],
  ['for a column', () => ({ resourceColumn: 'name' })],
])('a trigger that enforces, %s', (_, watch) => {
  beforeEach(() => install({ mode: 'enforce', ...watch() }));

  it('lets run, query and enter write, in every isolation level', async () => {
    await guard.run(OLD, (tx) => tx.query(UPDATE, ['run', account]));
    expect(await bank.peek(account)).toBe('run');
    await guard.query(OLD, UPDATE, ['query', account]);
    expect(await bank.peek(account)).toBe('query');
    for (const level of LEVELS) {
      await inTransaction(level, async (tx) => {
        await guard.enter(tx, OLD);
        await tx.query(UPDATE, [level, account]);
      });
      expect(await bank.peek(account)).toBe(level);
    }
    await guard.query(NEW, UPDATE, ['new', account]);
    expect(await bank.peek(account)).toBe('new');
  });

  it('stops every write without a turn, and undoes it', async () => {
    await expect(unguarded('x')).rejects.toMatchObject(NO_TURN);
    await expect(bank.pool.query('DELETE FROM account WHERE name = $1', [account])).rejects.toMatchObject(
      NO_TURN,
    );
    await expect(bank.pool.query("INSERT INTO account VALUES ('new', '')")).rejects.toMatchObject(NO_TURN);
    await expect(bank.pool.query('TRUNCATE account')).rejects.toMatchObject(NO_TURN);
    expect(await bank.peek(account)).toBe('');
    // Nor one that follows a guarded write on the same connection.
    const one = bank.newPool({ max: 1 });
    const through = postgresGuard(one, { resource: account });
    await through.query(OLD, UPDATE, ['query', account]);
    await through.run(OLD, () => 0);
    await expect(one.query(UPDATE, ['x', account])).rejects.toMatchObject(NO_TURN);
  });

  it('stops the turn of another guard', async () => {
    const other = postgresGuard(bank.pool, { resource: `${account}, another` });
    await expect(other.query(OLD, UPDATE, ['x', account])).rejects.toMatchObject(NO_TURN);
    await expect(other.run(OLD, (tx) => tx.query(UPDATE, ['x', account]))).rejects.toMatchObject(NO_TURN);
    // Both turns in one transaction are fine.
    await inTransaction('READ COMMITTED', async (tx) => {
      await guard.enter(tx, OLD);
      await other.enter(tx, OLD);
      await tx.query(UPDATE, ['both', account]);
    });
    expect(await bank.peek(account)).toBe('both');
  });

  it.each(LEVELS)('stops a mark left behind by a former turn: %s', async (level) => {
    const one = bank.newPool({ max: 1 });
    const { rows } = await postgresGuard(one, { resource: account }).run(OLD, (tx) =>
      tx.query<{ turns: string }>("SELECT current_setting('lockkeeper.turns') AS turns"),
    );
    await one.query("SELECT set_config('lockkeeper.turns', $1, false)", [rows[0]?.turns]);
    const client = await one.connect();
    try {
      await client.query(`BEGIN ISOLATION LEVEL ${level}`);
      await client.query('SELECT 1 FROM account');
      await guard.claim(NEW);
      const code = level === 'READ COMMITTED' ? 'LK002' : '40001';
      await expect(client.query(UPDATE, ['x', account])).rejects.toMatchObject({ code });
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
    await guard.seal(NEW);
    await expect(one.query(UPDATE, ['x', account])).rejects.toMatchObject({ code: 'LK002' });
    expect(await bank.peek(account)).toBe('');
  });

  it('can be installed again, and is gone after its own drop, which may be repeated', async () => {
    await install({ mode: 'enforce', ...watch() });
    const { drop } = postgresGuardTriggerSql({ mode: 'enforce', ...watch(), on: { table: 'account' } });
    await bank.pool.query(drop);
    await bank.pool.query(drop);
    await unguarded('free');
    expect(await bank.peek(account)).toBe('free');
    const { rows } = await bank.pool.query("SELECT FROM pg_trigger WHERE tgname LIKE 'lockkeeper%'");
    expect(rows).toEqual([]);
  });
});

it('a trigger for a column sees what a row was and what it becomes, and leaves NULL alone', async () => {
  await install({ mode: 'enforce', resourceColumn: 'value' });
  const other = postgresGuard(bank.pool, { resource: 'theirs' });
  const insert = (tx: { query(text: string, values: unknown[]): unknown }, value: string) =>
    tx.query('INSERT INTO account VALUES ($1, $2)', [`${account} 2`, value]);
  await expect(other.run(OLD, (tx) => insert(tx, 'ours'))).rejects.toMatchObject(NO_TURN);
  await other.run(OLD, (tx) => insert(tx, 'theirs'));
  const ours = postgresGuard(bank.pool, { resource: 'ours' });
  const steal = `UPDATE account SET value = 'ours' WHERE name = $1`;
  await expect(ours.query(OLD, steal, [`${account} 2`])).rejects.toMatchObject(NO_TURN);
  await inTransaction('READ COMMITTED', async (tx) => {
    await ours.claim(OLD);
    await ours.enter(tx, OLD);
    await other.enter(tx, OLD);
    await tx.query(steal, [`${account} 2`]);
  });
  expect(await bank.peek(`${account} 2`)).toBe('ours');
});

it('a trigger that audits lets everything pass and notes who forgot the guard', async () => {
  await install({ mode: 'audit', resourceColumn: 'name' });
  const culprit = bank.newPool({ application_name: 'nightly report' });
  await culprit.query("UPDATE account SET value = 'audited'");
  await guard.query(OLD, UPDATE, ['guarded', account]);
  const { rows } = await bank.pool.query(
    "SELECT *, at > now() - interval '1 minute' AS recent FROM lockkeeper_audit WHERE resource = $1",
    [account],
  );
  expect(rows).toMatchObject([
    {
      recent: true,
      role: server.user,
      application_name: 'nightly report',
      client: expect.stringContaining('127.0.0.1'),
      table_name: 'public.account',
      operation: 'UPDATE',
      rows: '1',
      reason: 'no turn',
      statement: "UPDATE account SET value = 'audited'",
    },
  ]);
  await culprit.query('TRUNCATE account');
  const truncated = await bank.pool.query("SELECT FROM lockkeeper_audit WHERE operation = 'TRUNCATE'");
  expect(truncated.rowCount).toBe(1);
});

it('works for writers who may not touch the guard, with a table of its own schema', async () => {
  await bank.pool.query(`CREATE SCHEMA "the guards"; CREATE ROLE clerk LOGIN PASSWORD 'clerk';
    CREATE TABLE ledger (id int PRIMARY KEY, entry text); GRANT ALL ON ledger TO clerk`);
  const where = { schema: 'the guards', table: 'state' };
  const chief = postgresGuard(bank.pool, { ...where, resource: 'ledger/7' });
  await chief.migrate();
  const options: PostgresGuardTriggerOptions = {
    ...where,
    on: { table: 'ledger' },
    mode: 'audit',
    resourceColumn: 'id',
    resourcePrefix: 'ledger/',
  };
  await bank.pool.query(postgresGuardTriggerSql(options).install);
  const url = new URL(server.url);
  url.username = 'clerk';
  url.password = 'clerk';
  const clerk = bank.newPool({ connectionString: url.href });
  await clerk.query("INSERT INTO ledger VALUES (7, 'x')");
  await chief.query(OLD, "UPDATE ledger SET entry = 'y' WHERE id = 7");
  const { rows } = await bank.pool.query('SELECT role, resource FROM "the guards".lockkeeper_audit');
  expect(rows).toEqual([{ role: 'clerk', resource: 'ledger/7' }]);
  await bank.pool.query(postgresGuardTriggerSql({ ...options, mode: 'enforce' }).install);
  await expect(clerk.query('DELETE FROM ledger')).rejects.toMatchObject({ code: 'LK001' });
});

it.each(LEVELS)(
  'works with the rights of an installer who may read and lock the guard, no more: %s',
  async (level) => {
    const [role, table] = [`installer_${level.replace(' ', '_')}`, `watched ${level}`];
    await bank.pool.query(`CREATE ROLE "${role}"; GRANT USAGE, CREATE ON SCHEMA public TO "${role}";
    GRANT SELECT, UPDATE ON lockkeeper_guards TO "${role}";
    CREATE TABLE "${table}" (value text); ALTER TABLE "${table}" OWNER TO "${role}"`);
    const { install } = postgresGuardTriggerSql({ on: { table }, mode: 'enforce', resource: account });
    // The function that the tests before have made is another role's.
    const schema = `CREATE SCHEMA "${role}" AUTHORIZATION "${role}"; SET ROLE "${role}";`;
    const owned = install.replaceAll('"public"."lockkeeper_check_', `"${role}"."lockkeeper_check_`);
    const installer = await bank.pool.connect();
    await installer.query(schema + owned);
    await installer.query('RESET ROLE');
    await installer.query(`BEGIN ISOLATION LEVEL ${level}`);
    await guard.enter(installer, OLD);
    const { rowCount } = await installer.query(`INSERT INTO "${table}" VALUES ('guarded')`);
    expect(rowCount).toBe(1);
    await installer.query('COMMIT');
    installer.release();
  },
);

it.each([
  [{ mode: 'warn', resource: 'a', on: { table: 't' } }, 'mode is "warn"'],
  [{ mode: 'audit', on: { table: 't' } }, 'resource is undefined'],
  [{ mode: 'audit', resource: 'a', resourceColumn: 'b', on: { table: 't' } }, 'resource is "a"'],
  [{ mode: 'audit', resource: 'a', on: { table: '' } }, 'on.table is ""'],
  [{ mode: 'audit', resource: 'a' }, 'on is undefined'],
  [{ mode: 'audit', resourceColumn: 'a', resourcePrefix: 7, on: { table: 't' } }, 'resourcePrefix is 7'],
])('refuses %j', (options, message) => {
  expect(() => postgresGuardTriggerSql(options as never)).toThrow(message);
});
