// From hand-overs to ratios of times, ours to theirs: one a round, and the median of those.
import { quantile, tableOf } from '../figures.ts';
import { type HandoverContestant, type Handovers, LEVELS } from './measure.ts';

/** What issue 8 aims at, by the names of the lines: at most. */
const AIMS: Readonly<Record<string, number>> = {
  'go-mutex@2': 1.1,
  'go-mutex@100': 1.1,
  'go-mutex@1000': 0.4,
  'go-mutex@10x10': 1.2,
};

const TITLES: Readonly<Record<HandoverContestant, string>> = {
  lockkeeper: 'Lockkeeper',
  'etcd3-lock': '`etcd3` Lock, tried again after 50 to 150 ms',
  'go-mutex': 'Go `concurrency.Mutex`, one client, a session each',
};

export interface HandoverLine {
  readonly name: string;
  readonly level: string;
  readonly contestant: HandoverContestant;
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Our time to its; `undefined` for Lockkeeper itself. */
  readonly ratio: number | undefined;
  readonly aim: number | undefined;
}

export function summariseHandovers(all: readonly Handovers[]): readonly HandoverLine[] {
  return LEVELS.flatMap(({ name: level, contestants }) =>
    contestants
      .filter((contestant) => all.some((each) => each.contestant === contestant))
      .map((contestant) => lineOf(level, contestant, all)),
  );
}

function lineOf(level: string, contestant: HandoverContestant, all: readonly Handovers[]): HandoverLine {
  const here = all.filter((each) => each.level === level);
  const own = here.filter((each) => each.contestant === contestant);
  const latencies = own.flatMap(({ latenciesMs }) => latenciesMs);
  const ratios = own.flatMap(({ round, latenciesMs }) => {
    const ours = here.find((each) => each.contestant === 'lockkeeper' && each.round === round);
    if (contestant === 'lockkeeper' || !ours?.latenciesMs.length || latenciesMs.length === 0) return [];
    return quantile(ours.latenciesMs, 0.5) / quantile(latenciesMs, 0.5);
  });
  const name = `${contestant}@${level}`;
  return {
    name,
    level,
    contestant,
    count: latencies.length,
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    ratio: ratios.length > 0 ? quantile(ratios, 0.5) : undefined,
    aim: AIMS[name],
  };
}

export function handoverTable(lines: readonly HandoverLine[]): string {
  const head = ['waiters', 'hand-over', 'p50 ms', 'p99 ms', 'ratio', 'aim', 'hand-overs'];
  const cells = lines.map(({ level, contestant, p50Ms, p99Ms, ratio, aim, count }) => [
    level,
    TITLES[contestant],
    p50Ms.toFixed(2),
    p99Ms.toFixed(2),
    ratio === undefined ? '' : `${ratio.toFixed(3)} × its time`,
    aim === undefined ? '' : `≤ ${aim}`,
    `${count}`,
  ]);
  return tableOf(head, cells);
}
