// What holds cost while nothing happens: renewals, memory, the processor. Each contestant and number in a process of its
// own, on an etcd of its own, which counts the renewals.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { etcdMetric, startEtcd } from '@lockkeeper/testkit';
import type { Cost, HoldsContestant } from './worker.ts';

export interface HoldsLine extends Cost {
  readonly contestant: HoldsContestant;
  readonly count: number;
  readonly renewalsPerSecond: number;
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
  const child = fork(worker, [contestant, endpoint, `${count}`, `${TTL_MS}`], {
    execArgv: [...process.execArgv, '--expose-gc'],
  });
  const gone = once(child, 'exit');
  const failed = gone.then(([code]) => {
    throw new Error(`a process of the benchmark ended with ${code}`);
  });
  const next = async () => (await Promise.race([once(child, 'message'), failed]))[0];
  await next();
  const before = await renewals();
  const cost = (await next()) as Cost;
  const renewalsPerSecond = ((await renewals()) - before) / (TTL_MS / 1_000);
  failed.catch(() => undefined);
  await gone;
  return { ...cost, renewalsPerSecond };
}
