// What many holds and waiters cost beside one, and beside a peer's.
import { tableOf } from '../figures.ts';
import type { HoldsLine } from './measure.ts';
import type { HoldsContestant } from './worker.ts';

const TITLES: Readonly<Record<HoldsContestant, string>> = {
  lockkeeper: 'Lockkeeper, holds',
  waiters: 'Lockkeeper, waiters of one lock',
  'etcd3-lock': '`etcd3` Lock, holds',
};

/** What issue 8 aims at, by the names of the figures: at most. */
const AIMS: Readonly<Record<string, number>> = {
  'holds:renewals@10000': 1,
  'holds:cpu@10000': 1,
  'holds:kib@10000': 1,
  'waiters:kib@10000': 2,
};

export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly aim: number | undefined;
}

/**
 * `holds:renewals@n` and `holds:cpu@n`: of so many, to those of one. `holds:kib@n` and `waiters:kib@n`: KiB of the heap
 * each. `holds:etcd3-lock@n`: our renewals to its.
 */
export function summariseHolds(lines: readonly HoldsLine[]): readonly Figure[] {
  const at = (contestant: HoldsContestant, count: number) =>
    lines.find((line) => line.contestant === contestant && line.count === count);
  return lines.flatMap((line) => {
    const { contestant, count, renewalsPerSecond, cpuShare, bytesEach } = line;
    const ofOne = at(contestant, 1);
    const ours = at('lockkeeper', count);
    const kib: [string, number] = [`kib@${count}`, bytesEach / 1_024];
    if (contestant === 'etcd3-lock') {
      return figures('holds', [
        [`${contestant}@${count}`, (ours?.renewalsPerSecond ?? 0) / renewalsPerSecond],
      ]);
    }
    if (ofOne === undefined || line === ofOne) return [];
    if (contestant === 'waiters') return figures('waiters', [kib]);
    return figures('holds', [
      [`renewals@${count}`, renewalsPerSecond / ofOne.renewalsPerSecond],
      [`cpu@${count}`, cpuShare / ofOne.cpuShare],
      kib,
    ]);
  });
}

function figures(of: string, values: readonly (readonly [string, number])[]): readonly Figure[] {
  return values
    .map(([name, value]) => ({ name: `${of}:${name}`, value }))
    .filter(({ value }) => Number.isFinite(value))
    .map(({ name, value }) => ({ name, value, aim: AIMS[name] }));
}

export function holdsTable(lines: readonly HoldsLine[], figures: readonly Figure[]): string {
  const head = ['count', 'what', 'renewals per s', 'heap bytes each', 'client CPU %'];
  const cells = lines.map(({ contestant, count, renewalsPerSecond, bytesEach, cpuShare }) => [
    `${count}`,
    TITLES[contestant],
    renewalsPerSecond.toFixed(2),
    // Of a single one it would be what the first brings with it.
    count === 1 ? '' : bytesEach.toFixed(0),
    (cpuShare * 100).toFixed(1),
  ]);
  const aimed = figures.flatMap(({ name, value, aim }) =>
    aim === undefined ? [] : [[name, value.toFixed(2), `≤ ${aim}`]],
  );
  return `${tableOf(head, cells)}\n\n${tableOf(['', 'ratio', 'aim'], aimed)}`;
}
