// A process that writes under the old token, by the job named in its first argument.
import type { GuardError } from '@lockkeeper/fencing';
import { sqliteGuard } from '@lockkeeper/resource-guard/sqlite';
import { pausePoint, workerChannel } from '@lockkeeper/testkit/worker';
import { OLD, read, write } from './account.ts';
import { type DriverName, findDriver } from './drivers.ts';

const [job, driverName, path = '', name = ''] = process.argv.slice(2);
const { report, onCommand } = workerChannel();
const { driver } = findDriver(driverName as DriverName);
if (driver === undefined) throw new Error(`${driverName} is missing`);
const db = driver.open(path);
const guard = sqliteGuard(db, { resource: name });

async function tell(type: string, call: Promise<unknown>): Promise<void> {
  const code = await call.then(
    () => 'applied',
    (error: GuardError) => error.code,
  );
  await report({ type, code });
}

function command(): Promise<void> {
  return new Promise((resolve) => {
    const listening = onCommand(() => {
      listening[Symbol.dispose]();
      resolve();
    });
  });
}

const append = (entry: string) => write(db, name, `${read(db, name)}${entry}`);

if (job === 'freeze') {
  await guard.claim(OLD);
  const frozen = guard.run(OLD, async () => {
    await pausePoint('between check and write');
    append('a1 ');
  });
  await tell('first', frozen);
  await command();
  await tell(
    'second',
    guard.run(OLD, () => append('a2 ')),
  );
} else {
  await report({ type: 'ready' });
  await command();
  for (let count = 0; count < 100; count++) await guard.run(OLD, () => append('.'));
  await report({ type: 'done' });
}
db.close();
