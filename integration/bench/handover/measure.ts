// How long a lock is nobody's: from the call of a release until the next one's acquire resolves, while as many wait as
// the level says. All contestants in turns, each with processes of its own, on one etcd.
import { fileURLToPath } from 'node:url';
import { startEtcd } from '@lockkeeper/testkit';
import { goMutex } from '../go/build.ts';
import { LineProcess } from '../line-process.ts';
import type { Plan } from '../throughput/measure.ts';
import type { Contending, Order, Stamp } from './worker.ts';

export type HandoverContestant = Contending | 'go-mutex';

export interface Level {
  /** In the ratios: `etcd3-lock@100`. */
  readonly name: string;
  readonly processes: number;
  /** In each process. */
  readonly waiters: number;
  readonly contestants: readonly HandoverContestant[];
}

const ALL: readonly HandoverContestant[] = ['lockkeeper', 'etcd3-lock', 'go-mutex'];

/** With 1,000 that poll, hardly anybody gets through. */
export const LEVELS: readonly Level[] = [
  { name: '2', processes: 1, waiters: 2, contestants: ALL },
  { name: '10', processes: 1, waiters: 10, contestants: ALL },
  { name: '100', processes: 1, waiters: 100, contestants: ALL },
  { name: '1000', processes: 1, waiters: 1_000, contestants: ['lockkeeper', 'go-mutex'] },
  { name: '10x10', processes: 10, waiters: 10, contestants: ALL },
];

export interface Handovers {
  readonly level: string;
  readonly contestant: HandoverContestant;
  readonly round: number;
  readonly latenciesMs: readonly number[];
}

export interface MeasuredHandovers {
  readonly servers: Readonly<Record<string, string>>;
  /** Why some could not be measured. */
  readonly missing: Readonly<Record<string, string>>;
  readonly handovers: readonly Handovers[];
}

/** Long enough for the others to be in line again. */
const HOLD_MS = 10;

const worker = fileURLToPath(new URL('worker.ts', import.meta.url));

/** Starts a process of a contestant. */
type Start = (endpoint: string) => Promise<LineProcess>;

/** @throws what a server or a process could not be started for. */
export async function measureHandovers(
  { rounds, sliceMs }: Plan,
  onRound: (level: string, round: number) => void,
): Promise<MeasuredHandovers> {
  const go = await goMutex();
  const start = new Map<HandoverContestant, Start>([
    ['lockkeeper', (endpoint) => LineProcess.node(worker, ['lockkeeper', endpoint])],
    ['etcd3-lock', (endpoint) => LineProcess.node(worker, ['etcd3-lock', endpoint])],
  ]);
  if ('program' in go) start.set('go-mutex', (endpoint) => LineProcess.start(go.program, [endpoint]));
  await using etcd = await startEtcd({ own: true });
  const handovers: Handovers[] = [];
  for (const level of LEVELS) {
    const crews = new Map<HandoverContestant, readonly LineProcess[]>();
    try {
      for (const contestant of level.contestants) {
        const one = start.get(contestant);
        if (one !== undefined) crews.set(contestant, await crew(level.processes, () => one(etcd.endpoint)));
      }
      for (let round = 0; round < rounds; round += 1) {
        onRound(level.name, round);
        for (const [contestant, each] of crews) {
          const name = `${level.name}-${contestant}-${round}`;
          const latenciesMs = await run(each, level, name, sliceMs);
          handovers.push({ level: level.name, contestant, round, latenciesMs });
        }
      }
    } finally {
      await Promise.all([...crews.values()].flat().map((each) => each[Symbol.asyncDispose]()));
    }
  }
  return {
    servers: {
      handover: `etcd ${etcd.version}`,
      ...('program' in go && { 'go-mutex': `etcd ${etcd.version} (${go.version})` }),
    },
    missing: 'missing' in go ? { 'go-mutex': go.missing } : {},
    handovers,
  };
}

const crew = (size: number, start: () => Promise<LineProcess>) =>
  Promise.all(Array.from({ length: size }, start));

/** The first of it is not counted: until all are in line. */
async function run(
  crew: readonly LineProcess[],
  { processes, waiters }: Level,
  name: string,
  sliceMs: number,
): Promise<readonly number[]> {
  const settleMs = 1_000 + 5 * processes * waiters;
  const order: Order = { kind: 'handover', name, waiters, ms: settleMs + sliceMs, holdMs: HOLD_MS };
  const begun = Number(process.hrtime.bigint()) / 1e6;
  const replies = await Promise.all(crew.map((each) => each.ask(order)));
  const stamps = (replies as (readonly Stamp[])[]).flat().sort(([a], [b]) => a - b);
  const ends = begun + settleMs + sliceMs;
  return stamps.flatMap(([acquiredAt], index) => {
    const released = stamps[index - 1]?.[1];
    const counts = released !== undefined && released > begun + settleMs && acquiredAt < ends;
    return counts ? [acquiredAt - released] : [];
  });
}
