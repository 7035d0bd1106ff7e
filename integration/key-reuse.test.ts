import { it } from 'vitest';
import { acquireOverAndOver } from './key-reuse.ts';

it('5,000 acquisitions of one name leave one key a contender, and the next are as quick as those of a fresh name', async () => {
  await acquireOverAndOver(5_000);
}, 180_000);
