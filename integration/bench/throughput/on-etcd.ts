import { type Coordinator, connect, etcdCoordinator } from '@lockkeeper/core';
import type { EtcdServer } from '@lockkeeper/testkit';
import { Etcd3 } from 'etcd3';
import { goMutex, type Missing } from '../go/build.ts';
import { LineProcess } from '../line-process.ts';
import { type Contestant, inPairs, type Run, TTL_MS } from './contestant.ts';

export async function lockkeeper(etcd: EtcdServer): Promise<Contestant> {
  const keeper = await connect({ hosts: etcd.endpoint, ttlMs: TTL_MS });
  return {
    server: `etcd ${etcd.version}`,
    run: inPairs(async (worker) => {
      const hold = await keeper.lock(`name-${worker}`).acquire();
      await hold.release();
    }),
    [Symbol.asyncDispose]: async () => {
      await keeper.close();
      await etcd.stop();
    },
  };
}

/** The least that any lock on etcd sends, one call a transaction: the floor of an acquire on its own. */
export async function bareTransactions(etcd: EtcdServer): Promise<Contestant> {
  const coordinator: Coordinator = etcdCoordinator({ hosts: etcd.endpoint });
  const lease = 4_711n;
  await coordinator.grant({ lease, ttlMs: 24 * 3_600_000 });
  const value = 'x'.repeat(200);
  return {
    server: `etcd ${etcd.version}`,
    run: inPairs(async (worker) => {
      const key = `lockkeeper/lock/name-${worker}/${lease}`;
      const { revision } = await coordinator.txn({
        compare: [{ key, target: 'createRevision', is: '=', to: 0n }],
        success: [{ op: 'put', key, value, lease }],
        failure: [{ op: 'range', key }],
      });
      await coordinator.txn({
        compare: [{ key, target: 'modRevision', is: '=', to: revision }],
        success: [{ op: 'delete', key }],
        failure: [{ op: 'range', key }],
      });
    }),
    [Symbol.asyncDispose]: async () => {
      await coordinator.close();
      await etcd.stop();
    },
  };
}

export async function etcd3Lock(etcd: EtcdServer): Promise<Contestant> {
  const client = new Etcd3({ hosts: etcd.endpoint });
  return {
    server: `etcd ${etcd.version}`,
    run: inPairs(async (worker) => {
      const lock = client.lock(`name-${worker}`).ttl(TTL_MS / 1_000);
      await lock.acquire();
      await lock.release();
    }),
    [Symbol.asyncDispose]: async () => {
      client.close();
      await etcd.stop();
    },
  };
}

/** In a process of its own, which is idle while others are measured. */
export async function goMutexes(start: () => Promise<EtcdServer>): Promise<Contestant | Missing> {
  const go = await goMutex();
  if ('missing' in go) return go;
  const etcd = await start();
  const process = await LineProcess.start(go.program, [etcd.endpoint]);
  return {
    server: `etcd ${etcd.version} (${go.version})`,
    run: async (inFlight, ms) =>
      (await process.ask({ kind: 'throughput', inFlight, ms: Math.ceil(ms) })) as Run,
    [Symbol.asyncDispose]: async () => {
      await process[Symbol.asyncDispose]();
      await etcd.stop();
    },
  };
}
