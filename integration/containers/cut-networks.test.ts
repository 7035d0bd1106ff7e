// A worker that is cut off from etcd and not from its database, by taking its container off one of its networks.
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import {
  type ContainerNetwork,
  containerHost,
  type EtcdServer,
  type PostgresServer,
  startContainerNetwork,
  startEtcd,
  startPostgres,
  startWorker,
  type Worker,
} from '@lockkeeper/testkit';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AccountIsTold, AccountSays } from './account-worker.ts';

type AccountWorker = Worker<AccountSays, AccountIsTold>;

const WORKER = new URL('./account-worker.ts', import.meta.url);

let toEtcd: ContainerNetwork;
let toDatabase: ContainerNetwork;
let etcd: EtcdServer;
let postgres: PostgresServer;
let pool: pg.Pool;
beforeAll(async () => {
  [toEtcd, toDatabase] = await Promise.all([startContainerNetwork(), startContainerNetwork()]);
  [etcd, postgres] = await Promise.all([
    startEtcd({ container: { networks: [toEtcd] } }),
    startPostgres({ container: { networks: [toDatabase] } }),
  ]);
  pool = new pg.Pool({ connectionString: postgres.url });
  await pool.query('CREATE TABLE account (entries text)');
  await postgresGuard(pool, { resource: 'account' }).migrate();
});
beforeEach(async () => {
  await pool.query("TRUNCATE account; INSERT INTO account VALUES ('')");
});
afterAll(async () => {
  await pool?.end();
  await Promise.all([postgres?.stop(), etcd?.stop()]);
  await Promise.all([toEtcd?.stop(), toDatabase?.stop()]);
});

function startAccountWorker(): Promise<AccountWorker> {
  const { user, password, database } = postgres;
  return startWorker<AccountSays, AccountIsTold>(WORKER, {
    host: containerHost({ networks: [toEtcd, toDatabase] }),
    args: [
      `http://${etcd.container?.name}:2379`,
      `postgres://${user}:${password}@${postgres.container?.name}:5432/${database}`,
    ],
  });
}

const acquire = async (worker: AccountWorker) => {
  worker.send({ type: 'acquire' });
  await worker.next('acquired');
};
const write = async (worker: AccountWorker, entry: string, guarded: boolean) => {
  worker.send({ type: 'write', entry, guarded });
  return (await worker.next('wrote')).outcome;
};
const entries = async () => (await pool.query('SELECT entries FROM account')).rows[0].entries;

describe('a worker that etcd does not reach any more, and that reaches its database', () => {
  it.each([
    ['is told so by its hold, and refused with a guard', true, 'stale-token', 'second'],
    ['is told so by its hold, and heard without a guard', false, 'accepted', 'secondfirst'],
  ])('%s', { timeout: 90_000 }, async (_, guarded, outcome, left) => {
    await using first = await startAccountWorker();
    await using second = await startAccountWorker();
    await acquire(first);
    await toEtcd.disconnect(first);
    const takeover = acquire(second);
    await first.next('lost');
    await takeover;
    expect(first.messages.map(({ message }) => message.type)).toEqual(['acquired', 'lost']);
    expect(await write(second, 'second', guarded)).toBe('accepted');
    expect(await write(first, 'first', guarded)).toBe(outcome);
    expect(await entries()).toBe(left);

    await toEtcd.connect(first);
    second.send({ type: 'release' });
    await second.next('released');
    await acquire(first);
    expect(await write(first, '!', guarded)).toBe('accepted');
  });
});
