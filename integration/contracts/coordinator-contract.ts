import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from 'vitest';
import { calls } from './coordinator/calls.ts';
import { compares } from './coordinator/compares.ts';
import { leases } from './coordinator/leases.ts';
import { ranges } from './coordinator/ranges.ts';
import { revisions } from './coordinator/revisions.ts';
import { CoordinatorSuite, type CoordinatorWorld } from './coordinator/suite.ts';
import { transactions } from './coordinator/transactions.ts';
import { watches } from './coordinator/watches.ts';

export type { CoordinatorWorld } from './coordinator/suite.ts';

const PARTS = { revisions, compares, transactions, ranges, leases, watches, calls };

/** What every implementation of the Coordinator port does, so that code tested on one runs on the other. */
export function describeCoordinator(name: string, openWorld: () => Promise<CoordinatorWorld>): void {
  describe(`coordinator contract: ${name}`, () => {
    const suite = new CoordinatorSuite();

    beforeAll(async () => {
      const world = await openWorld();
      suite.open(world);
      await using probe = await world.connect();
      expect(await probe.describe()).toBe(world.version);
      process.stdout.write(`coordinator contract on ${world.version}\n`);
    });
    afterAll(() => suite.close());
    beforeEach(() => suite.begin());
    afterEach(() => suite.end());

    for (const [part, define] of Object.entries(PARTS)) describe(part, () => define(suite));
  });
}
