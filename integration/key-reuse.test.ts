import { it } from 'vitest';
import { acquireOverAndOver } from './key-reuse.ts';

it('5,000 acquisitions of one name leave one key a contender, and the last are as quick as the first', async () => {
  await acquireOverAndOver(5_000);
}, 180_000);
