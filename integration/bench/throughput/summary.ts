// From slices to ratios, each of two medians' making: one ratio a round, and the median of those.
import { quantile, tableOf } from '../figures.ts';
import { type ContestantName, TITLES } from './contestants.ts';
import { LEVELS, type Slice } from './measure.ts';

/** What issue 8 aims at. Of `bare` the ratio is that of times, at most; of all others that of rates, at least. */
export const AIMS: Readonly<Record<string, number>> = {
  'bare@1': 1.1,
  'etcd3-lock@64': 15,
  'etcd3-lock@1000': 40,
  'go-mutex@64': 2,
  'go-mutex@1000': 3,
  'redlock-aof@1000': 1.2,
};

export interface Line {
  readonly contestant: ContestantName;
  readonly inFlight: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Against Lockkeeper in the same round; `undefined` for Lockkeeper itself. */
  readonly ratio: number | undefined;
  readonly spread: readonly [low: number, high: number] | undefined;
  readonly of: 'time' | 'rate';
  readonly aim: number | undefined;
}

export const nameOf = ({ contestant, inFlight }: Line): string => `${contestant}@${inFlight}`;

export function summarise(slices: readonly Slice[]): readonly Line[] {
  const contestants = [...new Set(slices.map(({ contestant }) => contestant))];
  return LEVELS.flatMap((inFlight) => {
    const here = slices.filter((slice) => slice.inFlight === inFlight);
    return contestants.map((contestant) => lineOf(contestant, inFlight, here));
  });
}

function lineOf(contestant: ContestantName, inFlight: number, slices: readonly Slice[]): Line {
  const own = slices.filter((slice) => slice.contestant === contestant);
  const latencies = own.flatMap(({ latenciesMs }) => latenciesMs);
  // Either is how many times what the other one does in the same time.
  const ratios = own.flatMap(({ round, perSecond }) => {
    const ours = slices.find((slice) => slice.contestant === 'lockkeeper' && slice.round === round);
    if (ours === undefined || contestant === 'lockkeeper') return [];
    return contestant === 'bare' ? perSecond / ours.perSecond : ours.perSecond / perSecond;
  });
  return {
    contestant,
    inFlight,
    perSecond: quantile(
      own.map(({ perSecond }) => perSecond),
      0.5,
    ),
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    ratio: ratios.length > 0 ? quantile(ratios, 0.5) : undefined,
    spread: ratios.length > 0 ? [quantile(ratios, 0.25), quantile(ratios, 0.75)] : undefined,
    of: contestant === 'bare' ? 'time' : 'rate',
    aim: AIMS[`${contestant}@${inFlight}`],
  };
}

export function throughputTable(lines: readonly Line[]): string {
  const head = ['in flight', 'acquire and release', 'per s', 'p50 ms', 'p99 ms', 'ratio', 'quartiles', 'aim'];
  const cells = lines.map((line) => {
    const { contestant, inFlight, ratio, spread, of, aim } = line;
    return [
      `${inFlight}`,
      TITLES[contestant],
      line.perSecond.toFixed(0),
      line.p50Ms.toFixed(2),
      line.p99Ms.toFixed(2),
      ratio === undefined ? '' : `${ratio.toFixed(2)} × its ${of}`,
      spread === undefined ? '' : spread.map((each) => each.toFixed(2)).join('-'),
      aim === undefined ? '' : `${of === 'time' ? '≤' : '≥'} ${aim}`,
    ];
  });
  return tableOf(head, cells);
}
