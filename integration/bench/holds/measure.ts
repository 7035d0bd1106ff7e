// What holds cost while nothing happens: renewals, memory, the processor. Each contestant and number in a process of its
// own, on an etcd of its own, which counts the renewals. All of one number at once: what is counted is each one's own.
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
  onNext: (count: number) => void,
): Promise<{ readonly server: string; readonly lines: readonly HoldsLine[] }> {
  const lines: HoldsLine[] = [];
  let server = '';
  for (const count of COUNTS) {
    onNext(count);
    const holders: Holder[] = [];
    try {
      for (const contestant of NAMES) holders.push(await startHolder(contestant));
      const bytesEach = await Promise.all(holders.map((each) => each.grow(count)));
      const idle = await Promise.all(holders.map((each) => each.idle()));
      for (const [at, { contestant }] of holders.entries()) {
        lines.push({ contestant, count, bytesEach: bytesEach[at] as number, ...(idle[at] as Idle) });
      }
      server = holders[0]?.server ?? server;
    } finally {
      for (const each of holders) await each[Symbol.asyncDispose]();
    }
  }
  return { server, lines };
}

type Idle = Pick<HoldsLine, 'cpuShare' | 'renewalsPerSecond'>;

interface Holder extends AsyncDisposable {
  readonly contestant: HoldsContestant;
  readonly server: string;
  /** Resolves with bytes of the heap, each. */
  grow(count: number): Promise<number>;
  idle(): Promise<Idle>;
}

async function startHolder(contestant: HoldsContestant): Promise<Holder> {
  const etcd = await startEtcd({ own: true });
  const process = await LineProcess.node(worker, [contestant, etcd.endpoint, `${TTL_MS}`], ['--expose-gc']);
  const ask = async (order: HoldsOrder) => (await process.ask(order)) as number;
  // A keepalive stream of etcd3 is opened once; each message on it is a renewal.
  const renewals = () =>
    etcdMetric(etcd.endpoint, 'grpc_server_msg_received_total', 'grpc_method="LeaseKeepAlive"');
  return {
    contestant,
    server: `etcd ${etcd.version}`,
    grow: (count) => ask({ kind: 'grow', count }),
    idle: async () => {
      const before = await renewals();
      const cpuShare = await ask({ kind: 'idle', ms: TTL_MS });
      return { cpuShare, renewalsPerSecond: ((await renewals()) - before) / (TTL_MS / 1_000) };
    },
    [Symbol.asyncDispose]: async () => {
      await process[Symbol.asyncDispose]();
      await etcd.stop();
    },
  };
}
