import { expect, test } from 'vitest';
import { Crew } from '../../scripts/simulation/crew.ts';

test('10,000 seeds break no promise', async () => {
  await using crew = await Crew.start(2);
  const { tally, violations } = await crew.play({ from: 1_001, count: 10_000 });
  expect(violations).toEqual([]);
  expect(tally.seeds).toBe(10_000);
});
