import { afterAll, beforeAll, expect, test } from 'vitest';
import { Crew } from '../../scripts/simulation/crew.ts';
import { makeMutant } from './mutant.ts';
import type { Mutation } from './mutations.ts';

const SEEDS = 2_000;

/** A test for each: it puts a bug into a copy of the real sources; the seeds that pass on the originals have to find it. */
export function findMutations(mutations: readonly Mutation[]): void {
  let crew: Crew;
  beforeAll(async () => {
    crew = await Crew.start(2);
  });
  afterAll(() => crew[Symbol.asyncDispose]());

  for (const mutation of mutations) {
    test(`finds: ${mutation.name}`, { timeout: 300_000 }, async () => {
      const core = await makeMutant(mutation, 'mutations');
      const { violations } = await crew.play({ from: 1, count: SEEDS, core, stopAtFirst: true });
      expect(violations).not.toEqual([]);
    });
  }
}
