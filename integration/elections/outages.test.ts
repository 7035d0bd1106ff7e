import { it } from 'vitest';
import { leadThrough } from './outages.ts';

it.each([
  [600, 'kept'],
  [600, 'wiped'],
  [2_000, 'kept'],
  [6_000, 'kept'],
  [6_000, 'wiped'],
] as const)(
  'E2: etcd is away for %i ms, its data %s: one loop at work at most, and soon one again',
  async (ms, data) => {
    await leadThrough(ms, data);
  },
);
