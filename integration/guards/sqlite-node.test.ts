// node:sqlite comes with Node 22. On an older Node, its suite runs by node:test in a Node 22 of the set-up, and
// each of its tests is one here.
import { describe, it } from 'vitest';
import { node22 } from '../support/node22.ts';
import { findDriver } from './sqlite/drivers.ts';
import { elsewhere } from './sqlite/elsewhere.ts';
import { sqliteSuite } from './sqlite/suite.ts';

const found = findDriver('node:sqlite');
const node = found.driver === undefined ? node22() : undefined;

if (found.driver !== undefined) sqliteSuite(found.driver, { describe, it });
else if (node !== undefined) elsewhere(node);
else it.skip(`${found.why}; the set-up fetches a Node 22 where it can`, () => {});
