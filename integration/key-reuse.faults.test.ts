import { it } from 'vitest';
import { acquireOverAndOver } from './key-reuse.ts';

it('100,000 acquisitions of one name leave one key a contender, and the next are as quick as those of a fresh name', async () => {
  await acquireOverAndOver(100_000);
}, 1_800_000);
