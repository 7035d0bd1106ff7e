import { tableOf } from '../figures.ts';
import type { HoldsLine } from './measure.ts';

const TITLES = {
  lockkeeper: 'Lockkeeper, holds',
  waiters: 'Lockkeeper, waiters of one lock',
  'etcd3-lock': '`etcd3` Lock, holds',
} as const;

export function holdsTable(lines: readonly HoldsLine[]): string {
  const head = ['count', 'what', 'renewals per s', 'heap bytes each', 'client CPU %'];
  const cells = lines.map(({ contestant, count, renewalsPerSecond, bytesEach, cpuShare }) => [
    `${count}`,
    TITLES[contestant],
    renewalsPerSecond.toFixed(2),
    // Of a single one it would be what the first brings with it.
    count === 1 ? '' : bytesEach.toFixed(0),
    (cpuShare * 100).toFixed(1),
  ]);
  return tableOf(head, cells);
}
