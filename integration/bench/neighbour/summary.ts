// From a neighbour's puts to the ratio of their p99, batched to unbatched: one a round, and the median of those.
import { quantile, tableOf } from '../figures.ts';
import { IN_FLIGHT, LOADS, type Load, type Neighbourhood } from './measure.ts';

/** What issue 8 aims at: at most. */
const AIM = 1.5;

const TITLES: Readonly<Record<Load, string>> = {
  none: 'nobody',
  unbatched: `${IN_FLIGHT} in flight, groupCommit: false`,
  batched: `${IN_FLIGHT} in flight, batched`,
};

export interface NeighbourLine {
  readonly name: string;
  readonly load: Load;
  readonly pairsPerSecond: number;
  readonly puts: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of the p99 of a put, beside a batched load to beside this one; `undefined` for the batched one itself. */
  readonly ratio: number | undefined;
  readonly aim: number | undefined;
}

export function summariseNeighbour(all: readonly Neighbourhood[]): readonly NeighbourLine[] {
  return LOADS.map((load) => {
    const own = all.filter((each) => each.load === load);
    const latencies = own.flatMap(({ latenciesMs }) => latenciesMs);
    const ratios = own.flatMap(({ round, latenciesMs }) => {
      const batched = all.find((each) => each.load === 'batched' && each.round === round);
      if (batched === undefined || load === 'batched') return [];
      return quantile(batched.latenciesMs, 0.99) / quantile(latenciesMs, 0.99);
    });
    return {
      name: `neighbour:${load}@${IN_FLIGHT}`,
      load,
      pairsPerSecond: quantile(
        own.map(({ pairsPerSecond }) => pairsPerSecond),
        0.5,
      ),
      puts: latencies.length,
      p50Ms: quantile(latencies, 0.5),
      p99Ms: quantile(latencies, 0.99),
      ratio: ratios.length > 0 ? quantile(ratios, 0.5) : undefined,
      aim: load === 'unbatched' ? AIM : undefined,
    };
  });
}

export function neighbourTable(lines: readonly NeighbourLine[]): string {
  const head = [
    "a put of another client's, beside",
    'pairs per s',
    'p50 ms',
    'p99 ms',
    'ratio of p99',
    'aim',
    'puts',
  ];
  const cells = lines.map(({ load, pairsPerSecond, p50Ms, p99Ms, ratio, aim, puts }) => [
    TITLES[load],
    pairsPerSecond.toFixed(0),
    p50Ms.toFixed(2),
    p99Ms.toFixed(2),
    ratio === undefined ? '' : `${ratio.toFixed(2)} (batched to this)`,
    aim === undefined ? '' : `≤ ${aim}`,
    `${puts}`,
  ]);
  return tableOf(head, cells);
}
