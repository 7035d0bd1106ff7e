// better-sqlite3 has to be compiled, which takes two minutes on a new machine, so it is not part of the set-up.
import type { SqliteDatabase } from '@lockkeeper/resource-guard/sqlite';
import type BetterSqlite3 from 'better-sqlite3';
import { describe, expectTypeOf, it } from 'vitest';
import { findDriver } from './sqlite/drivers.ts';
import { sqliteSuite } from './sqlite/suite.ts';

const BUILD =
  'to build it: npm install --prefix /tmp/better better-sqlite3@12, and where npm asks, approve its install ' +
  'script; then set LOCKKEEPER_BETTER_SQLITE3=/tmp/better/node_modules/better-sqlite3';

const found = findDriver('better-sqlite3');
if (found.driver !== undefined) sqliteSuite(found.driver, { describe, it });
else it.skip(`${found.why}; ${BUILD}`, () => {});

it('its types fit the guard, as tsc sees them', () => {
  expectTypeOf<BetterSqlite3.Database>().toExtend<SqliteDatabase>();
});
