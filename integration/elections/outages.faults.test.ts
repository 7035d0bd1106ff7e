import { it } from 'vitest';
import { leadThrough } from './outages.ts';

it.each(['kept', 'wiped'] as const)('E2: etcd is away for 20 × TTL, its data %s', async (data) => {
  await leadThrough(40_000, data);
});
