// How long a lock is nobody's: from the call of a release until the next one's acquire resolves, while as many wait as
// the level says. All contestants in turns, each with processes of its own, on one etcd.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { startEtcd } from '@lockkeeper/testkit';
import type { Plan } from '../throughput/measure.ts';
import type { HandoverContestant, Order, Stamp } from './worker.ts';

export interface Level {
  /** In the ratios: `etcd3-lock@100`. */
  readonly name: string;
  readonly processes: number;
  /** In each process. */
  readonly waiters: number;
  readonly contestants: readonly HandoverContestant[];
}

const BOTH: readonly HandoverContestant[] = ['lockkeeper', 'etcd3-lock'];

/** With 1,000 that poll, hardly anybody gets through. */
export const LEVELS: readonly Level[] = [
  { name: '2', processes: 1, waiters: 2, contestants: BOTH },
  { name: '10', processes: 1, waiters: 10, contestants: BOTH },
  { name: '100', processes: 1, waiters: 100, contestants: BOTH },
  { name: '1000', processes: 1, waiters: 1_000, contestants: ['lockkeeper'] },
  { name: '10x10', processes: 10, waiters: 10, contestants: BOTH },
];

export interface Handovers {
  readonly level: string;
  readonly contestant: HandoverContestant;
  readonly round: number;
  readonly latenciesMs: readonly number[];
}

/** Long enough for the others to be in line again. */
const HOLD_MS = 10;

const worker = fileURLToPath(new URL('worker.ts', import.meta.url));

/** @throws what a server or a process could not be started for. */
export async function measureHandovers(
  { rounds, sliceMs }: Plan,
  onRound: (level: string, round: number) => void,
): Promise<{ readonly server: string; readonly handovers: readonly Handovers[] }> {
  await using etcd = await startEtcd({ own: true });
  const handovers: Handovers[] = [];
  for (const level of LEVELS) {
    const crews = new Map<HandoverContestant, readonly ChildProcess[]>();
    try {
      for (const each of level.contestants) crews.set(each, await startCrew(each, level, etcd.endpoint));
      for (let round = 0; round < rounds; round += 1) {
        onRound(level.name, round);
        for (const [contestant, crew] of crews) {
          const name = `${level.name}-${contestant}-${round}`;
          const latenciesMs = await run(crew, level, name, sliceMs);
          handovers.push({ level: level.name, contestant, round, latenciesMs });
        }
      }
    } finally {
      for (const crew of crews.values()) await Promise.all(crew.map(dismiss));
    }
  }
  return { server: `etcd ${etcd.version}`, handovers };
}

async function startCrew(
  contestant: HandoverContestant,
  { processes }: Level,
  endpoint: string,
): Promise<readonly ChildProcess[]> {
  const crew = Array.from({ length: processes }, () => fork(worker, [contestant, endpoint]));
  await Promise.all(crew.map((each) => reply(each)));
  return crew;
}

/** The first of it is not counted: until all are in line. */
async function run(
  crew: readonly ChildProcess[],
  { processes, waiters }: Level,
  name: string,
  sliceMs: number,
): Promise<readonly number[]> {
  const settleMs = 1_000 + 5 * processes * waiters;
  const order: Order = { name, waiters, ms: settleMs + sliceMs, holdMs: HOLD_MS };
  const begun = Number(process.hrtime.bigint()) / 1e6;
  const replies = crew.map((each) => reply(each));
  for (const each of crew) each.send(order);
  const stamps = ((await Promise.all(replies)) as (readonly Stamp[])[]).flat().sort(([a], [b]) => a - b);
  const ends = begun + settleMs + sliceMs;
  return stamps.flatMap(([acquiredAt], index) => {
    const released = stamps[index - 1]?.[1];
    const counts = released !== undefined && released > begun + settleMs && acquiredAt < ends;
    return counts ? [acquiredAt - released] : [];
  });
}

async function reply(process: ChildProcess): Promise<unknown> {
  const failed = once(process, 'exit').then(([code]) => {
    throw new Error(`a process of the benchmark ended with ${code}`);
  });
  const [message] = await Promise.race([once(process, 'message'), failed]);
  return message;
}

async function dismiss(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null) return;
  const gone = once(process, 'exit');
  process.disconnect();
  await gone;
}
