// The suite under node:test, for Node versions that Vitest does not run on here: `node:sqlite` comes with 22.
import { describe, it } from 'node:test';
import { findDriver } from './drivers.ts';
import { sqliteSuite } from './suite.ts';

const { driver } = findDriver('node:sqlite');
if (driver === undefined) throw new Error('node:sqlite is missing');
sqliteSuite(driver, { describe, it });
