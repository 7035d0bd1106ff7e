// A process whose files cannot grow: its COMMIT fails in the middle of writing.
import type { GuardError } from '@lockkeeper/fencing';
import { sqliteGuard } from '@lockkeeper/resource-guard/sqlite';
import { OLD, write } from './account.ts';
import { type DriverName, findDriver } from './drivers.ts';

const [driverName, path = '', name = ''] = process.argv.slice(2);
const { driver } = findDriver(driverName as DriverName);
if (driver === undefined) throw new Error(`${driverName} is missing`);
const db = driver.open(path);
// All pages are written by COMMIT, none before.
db.exec('PRAGMA cache_spill = OFF');
const guard = sqliteGuard(db, { resource: name });
const error = await guard
  .run(OLD, (handle) => write(handle, name, 'x'.repeat(8_000_000)))
  .then(
    () => undefined,
    (reason: unknown) => reason as GuardError,
  );
await guard.run(OLD, (handle) => write(handle, name, 'next'));
const { value } = db.prepare('SELECT value FROM account WHERE name = ?').get(name) as { value: string };
db.close();
process.stdout.write(
  JSON.stringify({
    code: error?.code,
    outcome: error?.outcome,
    cause: String(error?.cause),
    next: value,
  }),
);
