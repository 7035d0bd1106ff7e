// From rounds to ratios.
import { quantile, tableOf as table } from '../../bench/figures.ts';
import type { ContestName } from './contestants.ts';
import type { Round } from './measure.ts';

/** What issue 5 aims at: the time of the guarded write, divided by that of the plain one, one at a time. */
export const AIMS: Partial<Readonly<Record<ContestName, number>>> = {
  postgres: 1.15,
  'postgres-transaction': 1.25,
  mysql: 1.25,
  'mysql-transaction': 1.25,
  redis: 1.2,
  sqlite: 1.2,
  etcd: 1.1,
};

export interface Line {
  /** `postgres@16`. */
  readonly name: string;
  readonly guardedMs: number;
  readonly plainMs: number;
  /** The median of the rounds' ratios of times. */
  readonly ratio: number;
  /** The quartiles of the same. */
  readonly spread: readonly [low: number, high: number];
  readonly aim: number | undefined;
}

export function summarise(rounds: readonly Round[]): readonly Line[] {
  const names = new Set(rounds.map(nameOf));
  return [...names].map((name) => {
    const own = rounds.filter((round) => nameOf(round) === name);
    const ratios = own.map(({ guardedMs, plainMs }) => guardedMs / plainMs);
    return {
      name,
      guardedMs: quantile(
        own.map((round) => round.guardedMs),
        0.5,
      ),
      plainMs: quantile(
        own.map((round) => round.plainMs),
        0.5,
      ),
      ratio: quantile(ratios, 0.5),
      spread: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
      aim: own[0] && AIMS[own[0].contest],
    };
  });
}

function nameOf({ contest, parallel }: Round): string {
  return `${contest}@${parallel}`;
}

export function tableOf(lines: readonly Line[]): string {
  const cells = lines.map(({ name, plainMs, guardedMs, ratio, spread, aim }) => [
    name,
    plainMs.toFixed(3),
    guardedMs.toFixed(3),
    ratio.toFixed(2),
    `${spread[0].toFixed(2)}-${spread[1].toFixed(2)}`,
    aim?.toFixed(2) ?? '-',
  ]);
  const head = ['storage@parallel', 'plain ms', 'guarded ms', 'ratio', 'quartiles', 'aim'];
  return table(head, cells);
}
