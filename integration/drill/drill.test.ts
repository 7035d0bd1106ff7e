import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import {
  checkHistory,
  type DrilledResource,
  lateWriteDrill,
  type PostgresServer,
  startEtcd,
  startPostgres,
} from '@lockkeeper/testkit';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const WORKER = new URL('./account-worker.ts', import.meta.url);

let etcd: Awaited<ReturnType<typeof startEtcd>>;
let postgres: PostgresServer;
let pool: pg.Pool;
let resource: DrilledResource;
beforeAll(async () => {
  [etcd, postgres] = await Promise.all([startEtcd(), startPostgres()]);
  pool = new pg.Pool({ connectionString: postgres.url });
  await pool.query('CREATE TABLE account (entries text)');
  const guard = postgresGuard(pool, { resource: 'account' });
  await guard.migrate();
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

describe('lateWriteDrill', { timeout: 120_000 }, () => {
  it('shows an unguarded account exposed, with the updates that are lost', async () => {
    const report = await lateWriteDrill({ worker: WORKER, resource, etcd });
    expect(report.points.map(({ point, verdict }) => [point, verdict])).toEqual([
      ['after the read', 'exposed'],
      ['after the write', 'protected'],
      ['in flight', 'exposed'],
    ]);
    expect(report.verdict).toBe('exposed');
    expect(report.lostUpdates).toEqual([
      expect.stringMatching(/^second-/),
      expect.stringMatching(/^second-/),
    ]);
    expect(report.text).toMatch(/^exposed\n {2}exposed {6}after the read: lost: second-/);
  });

  it('shows a guarded one protected at every point, and its history agrees', async () => {
    const report = await lateWriteDrill({ worker: WORKER, resource, etcd, data: 'guarded' });
    expect(report.points.map(({ point, verdict }) => [point, verdict])).toEqual([
      ['after the read', 'protected'],
      ['inside the transaction', 'protected'],
      ['after the write', 'protected'],
      ['in flight', 'protected'],
    ]);
    expect(report).toMatchObject({ verdict: 'protected', lostUpdates: [], staleWrites: [] });
    for (const { history } of report.points) {
      expect(checkHistory(history).filter(({ kind }) => kind === 'lost-update')).toEqual([]);
    }
  });
});
