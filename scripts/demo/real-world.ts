// The story on a real etcd, a real PostgreSQL, and two processes. Whatever is started here is ended by close().
import { randomBytes } from 'node:crypto';
import { type Coordinator, etcdCoordinator, prefixSpan } from '@lockkeeper/core';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { startEtcd, startPostgres, startTcpProxy, startWorker, type TcpProxy } from '@lockkeeper/testkit';
import { Pool } from 'pg';
import { AccountTable } from './account.ts';
import type { CleanUps } from './clean-ups.ts';
import { type Network, RealStage, type Troupe } from './real-stage.ts';
import type { Command, DemoWorker, Message, Setting } from './worker-orders.ts';
import type { World } from './world.ts';

const TTL_MS = 3_000;

/** @throws TestkitError `no-server` where an etcd or a PostgreSQL cannot be had, and what else can go wrong. */
export async function realWorld(cleanUps: CleanUps): Promise<World> {
  const [etcd, postgres] = await bothOrNone(cleanUps);
  const network: Network = {
    etcd: await proxyTo(etcd.endpoint, cleanUps),
    postgres: await proxyTo(postgres.url, cleanUps),
  };
  const coordinator = etcdCoordinator({ hosts: etcd.endpoint });
  cleanUps.add('closing the coordinator', () => coordinator.close());
  const pool = new Pool({ connectionString: postgres.url });
  // What a query meets is the query's to tell. This is a connection that broke while nobody used it.
  pool.on('error', (error) => process.stderr.write(`an idle connection broke: ${error.message}\n`));
  cleanUps.add('closing the pool', () => pool.end());

  const id = `lockkeeper-demo-${randomBytes(4).toString('hex')}`;
  const common = { namespace: id, schema: id, ttlMs: TTL_MS };
  cleanUps.add('deleting our keys', () => forget(coordinator, id));
  const accounts = await prepare(pool, id, cleanUps);
  const [a, b] = await Promise.all([
    // Whatever A sends goes through the proxies.
    enter(
      { ...common, who: 'A', etcdEndpoint: network.etcd.url, postgresUrl: network.postgres.url },
      cleanUps,
    ),
    enter({ ...common, who: 'B', etcdEndpoint: etcd.endpoint, postgresUrl: postgres.url }, cleanUps),
  ]);
  const troupe: Troupe = { a, b, network, coordinator, namespace: id, accounts };
  return {
    simulated: false,
    coordinator: await coordinator.describe(),
    storage: `PostgreSQL ${await serverVersion(pool)}`,
    names: { coordinator: 'etcd', storage: 'PostgreSQL' },
    ttlMs: TTL_MS,
    cast: `A and B are two processes, ${a.pid} and ${b.pid}.`,
    // As workers date their messages.
    now: () => performance.timeOrigin + performance.now(),
    open: (scene, record) => RealStage.open(troupe, scene, record),
    close: async () => {
      await Promise.all([dismiss(a), dismiss(b)]);
      await cleanUps.run();
    },
  };
}

/** Both servers at once; where one cannot be had, the other is ended by the clean-up. */
async function bothOrNone(cleanUps: CleanUps) {
  const starting = [startEtcd(), startPostgres()] as const;
  const settled = await Promise.allSettled(starting);
  for (const one of settled)
    if (one.status === 'fulfilled') cleanUps.add('stopping a server', () => one.value.stop());
  return Promise.all(starting);
}

async function proxyTo(target: string, cleanUps: CleanUps): Promise<TcpProxy> {
  const proxy = await startTcpProxy(target);
  cleanUps.add('closing a proxy', () => proxy.close());
  return proxy;
}

async function prepare(pool: Pool, schema: string, cleanUps: CleanUps): Promise<AccountTable> {
  await pool.query(`CREATE SCHEMA "${schema}"`);
  cleanUps.add('dropping our schema', () => pool.query(`DROP SCHEMA "${schema}" CASCADE`));
  const accounts = new AccountTable(pool, schema);
  await accounts.create();
  await postgresGuard(pool, { resource: 'any', schema }).migrate();
  return accounts;
}

async function enter(setting: Setting, cleanUps: CleanUps): Promise<DemoWorker> {
  const worker = await startWorker<Message, Command>(new URL('./worker.ts', import.meta.url), {
    name: setting.who,
    args: [JSON.stringify(setting)],
  });
  cleanUps.add(`ending ${setting.who}`, () => worker.kill());
  await worker.next('ready');
  return worker;
}

/** Lets a worker end by itself: what it opened it closes, and nothing keeps it. */
async function dismiss(worker: DemoWorker): Promise<void> {
  worker.send({ type: 'end' });
  await worker.next('closed');
  const { code, signal } = await worker.exited;
  if (code !== 0) throw new Error(`worker ${worker.name} ended with ${code ?? signal}: ${worker.stderr}`);
}

/** The server may be somebody else's: nothing of ours stays. */
async function forget(coordinator: Coordinator, namespace: string): Promise<void> {
  const everything = { op: 'delete' as const, ...prefixSpan(`${namespace}/`) };
  await coordinator.txn({ compare: [], success: [everything], failure: [] });
}

async function serverVersion(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ server_version: string }>('SHOW server_version');
  // Packagers append their own: `15.14 (Debian 15.14-0+deb12u1)`.
  return rows[0]?.server_version.split(' ')[0] ?? 'of unknown version';
}
