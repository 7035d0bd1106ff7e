// From hand-overs to ratios of times, ours to theirs: one a round, and the median of those.
import { quantile, tableOf } from '../figures.ts';
import { type Handovers, LEVELS } from './measure.ts';
import type { HandoverContestant } from './worker.ts';

export interface HandoverLine {
  readonly name: string;
  readonly level: string;
  readonly contestant: HandoverContestant;
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Our time to its; `undefined` for Lockkeeper itself. */
  readonly ratio: number | undefined;
}

export function summariseHandovers(all: readonly Handovers[]): readonly HandoverLine[] {
  return LEVELS.flatMap(({ name: level, contestants }) =>
    contestants.map((contestant) => lineOf(level, contestant, all)),
  );
}

function lineOf(level: string, contestant: HandoverContestant, all: readonly Handovers[]): HandoverLine {
  const here = all.filter((each) => each.level === level);
  const own = here.filter((each) => each.contestant === contestant);
  const latencies = own.flatMap(({ latenciesMs }) => latenciesMs);
  const ratios = own.flatMap(({ round, latenciesMs }) => {
    const ours = here.find((each) => each.contestant === 'lockkeeper' && each.round === round);
    if (contestant === 'lockkeeper' || ours === undefined || latenciesMs.length === 0) return [];
    return quantile(ours.latenciesMs, 0.5) / quantile(latenciesMs, 0.5);
  });
  return {
    name: `${contestant}@${level}`,
    level,
    contestant,
    count: latencies.length,
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    ratio: ratios.length > 0 ? quantile(ratios, 0.5) : undefined,
  };
}

export function handoverTable(lines: readonly HandoverLine[]): string {
  const head = ['waiters', 'hand-over', 'p50 ms', 'p99 ms', 'ratio', 'hand-overs'];
  const cells = lines.map(({ level, contestant, p50Ms, p99Ms, ratio, count }) => [
    level,
    contestant === 'lockkeeper' ? 'Lockkeeper' : '`etcd3` Lock, tried again after 50 to 150 ms',
    p50Ms.toFixed(2),
    p99Ms.toFixed(2),
    ratio === undefined ? '' : `${ratio.toFixed(3)} × its time`,
    `${count}`,
  ]);
  return tableOf(head, cells);
}
