/**
 * The suite that every guard must pass, also one you write yourself. It knows no test framework: each case
 * is a named asynchronous function that throws an `AssertionError`.
 *
 * ```ts
 * import { describe, it } from 'vitest';            // or node:test, or Jest's globals
 * describeGuard({ name: 'my guard', open: async () => ({ guard, other, value }) }, { describe, it });
 * ```
 *
 * @module
 */
import { adminCases } from './contract/admin-cases.ts';
import { effectCases } from './contract/effect-cases.ts';
import { handOverCases } from './contract/hand-over-cases.ts';
import { sharedCases } from './contract/shared-cases.ts';
import type { GuardCase, GuardSubject } from './contract/subject.ts';
import { tableCases } from './contract/table-cases.ts';

export type {
  GuardCase,
  GuardedValue,
  GuardFixture,
  GuardSubject,
  GuardTrait,
  HeldWrites,
} from './contract/subject.ts';

/** Every case, in an order that fails where the fault is plainest. */
export const guardContract: readonly GuardCase[] = [
  ...tableCases,
  ...handOverCases,
  ...sharedCases,
  ...effectCases,
  ...adminCases,
];

/** The two functions of Vitest, Jest and node:test that the suite uses. */
export interface TestFramework {
  readonly describe: (name: string, body: () => void) => unknown;
  readonly it: {
    (name: string, body: () => Promise<void>, timeoutMs?: number): unknown;
    /** Shows the cases of what the guard lacks as skipped; without it they are left out. */
    readonly skip?: ((name: string, body: () => Promise<void>) => unknown) | undefined;
  };
}

/** A hanging call is found after ten seconds, and the case ended after ten more: longer than the frameworks wait. */
const LONGEST_CASE_MS = 30_000;

/**
 * Registers the suite for one guard. Most cases take a fraction of a second; one in which the guard hangs takes ten
 * to twenty. Vitest and Jest are told to wait that long, node:test waits anyway.
 */
export function describeGuard<Handle>(subject: GuardSubject<Handle>, { describe, it }: TestFramework): void {
  describe(`guard contract: ${subject.name}`, () => {
    for (const each of guardContract) {
      const body = () => each.run(subject);
      if (each.needs === undefined || !subject.lacks?.includes(each.needs))
        it(each.name, body, LONGEST_CASE_MS);
      else it.skip?.(each.name, body);
    }
  });
}
