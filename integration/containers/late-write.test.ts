// The late write by containers: the worker is paused by the engine, as `docker pause` does, past its lease.
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import {
  containerHost,
  type DrilledResource,
  type EtcdServer,
  lateWriteDrill,
  type PostgresServer,
  startEtcd,
  startPostgres,
} from '@lockkeeper/testkit';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const WORKER = new URL('../drill/account-worker.ts', import.meta.url);

let etcd: EtcdServer;
let postgres: PostgresServer;
let pool: pg.Pool;
let resource: DrilledResource;
beforeAll(async () => {
  [etcd, postgres] = await Promise.all([startEtcd(), startPostgres()]);
  pool = new pg.Pool({ connectionString: postgres.url });
  await pool.query('CREATE TABLE account (entries text)');
  await postgresGuard(pool, { resource: 'account' }).migrate();
  resource = {
    url: postgres.url,
    reset: async () => {
      await pool.query('TRUNCATE account, lockkeeper_guards');
      await pool.query("INSERT INTO account VALUES ('')");
    },
    read: async () => (await pool.query('SELECT entries FROM account')).rows[0].entries as string,
  };
});
afterAll(async () => {
  await pool?.end();
  await Promise.all([postgres?.stop(), etcd?.stop()]);
});

describe('a worker in a container, paused by the engine', { timeout: 120_000 }, () => {
  it('loses the update of its successor without a guard: the fault is real', async () => {
    const report = await lateWriteDrill({
      worker: WORKER,
      resource,
      etcd,
      host: containerHost(),
      pausePoints: ['after the read'],
    });
    expect(report.points).toMatchObject([{ point: 'after the read', verdict: 'exposed' }]);
    expect(report.lostUpdates).toEqual([expect.stringMatching(/^second-/)]);
  });

  it('harms nothing with a guard, wherever it was paused', async () => {
    const report = await lateWriteDrill({
      worker: WORKER,
      resource,
      etcd,
      host: containerHost(),
      data: 'guarded',
    });
    expect(report.points.map(({ point, verdict }) => [point, verdict])).toEqual([
      ['after the read', 'protected'],
      ['inside the transaction', 'protected'],
      ['after the write', 'protected'],
      ['in flight', 'protected'],
    ]);
    expect(report).toMatchObject({ lostUpdates: [], staleWrites: [] });
  });
});
