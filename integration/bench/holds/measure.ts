// What holds cost while nothing happens: renewals, memory, the processor. Each contestant and number in a process of its
// own, on an etcd of its own, which counts the renewals.
import { fileURLToPath } from 'node:url';
import { etcdMetric, startEtcd } from '@lockkeeper/testkit';
import { LineProcess } from '../line-process.ts';
import type { HoldsContestant, HoldsOrder } from './worker.ts';

export interface HoldsLine {
  readonly contestant: HoldsContestant;
  readonly count: number;
  readonly renewalsPerSecond: number;
  /** Of the heap, beside what a process has with none, each. */
  readonly bytesEach: number;
  /** Of one core, 0 to 1. */
  readonly cpuShare: number;
}

const COUNTS = [1, 1_000, 10_000] as const;
const NAMES: readonly HoldsContestant[] = ['lockkeeper', 'waiters', 'etcd3-lock'];

/** Also how long it is looked at: three renewals of each lease. */
const TTL_MS = 15_000;

const worker = fileURLToPath(new URL('worker.ts', import.meta.url));

/** @throws what a server or a process could not be started for. */
export async function measureHolds(
  onNext: (contestant: HoldsContestant, count: number) => void,
): Promise<{ readonly server: string; readonly lines: readonly HoldsLine[] }> {
  const lines: HoldsLine[] = [];
  let server = '';
  for (const count of COUNTS) {
    for (const contestant of NAMES) {
      onNext(contestant, count);
      await using etcd = await startEtcd({ own: true });
      server = `etcd ${etcd.version}`;
      lines.push({ contestant, count, ...(await look(contestant, etcd.endpoint, count)) });
    }
  }
  return { server, lines };
}

async function look(contestant: HoldsContestant, endpoint: string, count: number) {
  // A keepalive stream of etcd3 is opened once; each message on it is a renewal.
  const renewals = () =>
    etcdMetric(endpoint, 'grpc_server_msg_received_total', 'grpc_method="LeaseKeepAlive"');
  await using process = await LineProcess.node(worker, [contestant, endpoint, `${TTL_MS}`], ['--expose-gc']);
  const ask = async (order: HoldsOrder) => (await process.ask(order)) as number;
  const bytesEach = await ask({ kind: 'grow', count });
  const before = await renewals();
  const cpuShare = await ask({ kind: 'idle', ms: TTL_MS });
  const renewalsPerSecond = ((await renewals()) - before) / (TTL_MS / 1_000);
  return { bytesEach, cpuShare, renewalsPerSecond };
}
