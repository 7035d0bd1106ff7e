// Everything that SQLite's guard is put through, for any test framework: on Node 20, node:sqlite is tested by
// node:test in a Node 22.
import { describeGuard, type TestFramework } from '@lockkeeper/resource-guard/contract';
import { sqliteSubject } from './account.ts';
import type { SqliteCase } from './case.ts';
import type { Driver } from './drivers.ts';
import { enterCases } from './enter-cases.ts';
import { escapeCases } from './escape-cases.ts';
import { lockCases } from './lock-cases.ts';
import { outcomeCases } from './outcome-cases.ts';
import { processCases } from './process-cases.ts';
import { storeCases } from './store-cases.ts';

const GROUPS: readonly (readonly [string, readonly SqliteCase[]])[] = [
  ['locks', lockCases],
  ['escapes', escapeCases],
  ['outcomes', outcomeCases],
  ['the caller’s own transactions', enterCases],
  ['processes', processCases],
  ['restarts and older copies', storeCases],
];

export function sqliteSuite(driver: Driver, { describe, it }: TestFramework): void {
  describeGuard(sqliteSubject(driver, 'WAL'), { describe, it });
  describeGuard(sqliteSubject(driver, 'DELETE'), { describe, it });
  for (const [group, cases] of GROUPS) {
    describe(`SQLite by ${driver.name}: ${group}`, () => {
      for (const each of cases) it(each.name, () => each.run(driver));
    });
  }
}
