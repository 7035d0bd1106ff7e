// One process of the experiment: updates without end, and tells how each of them went, until it is told to stop.
import { reportFromWorker } from '@lockkeeper/testkit';
import pg from 'pg';
import type { Setting } from './contestants.ts';
import { openCriticalSection } from './critical-section.ts';

const channel = reportFromWorker();
const setting = JSON.parse(process.argv[2] ?? '') as Setting;
const pool = new pg.Pool({ connectionString: setting.postgresUrl, max: 3 });
// What a query meets is the query's to tell. This is a connection that broke while nobody used it.
pool.on('error', (error) => process.stderr.write(`an idle connection broke: ${error.message}\n`));
const section = await openCriticalSection(setting, pool);

let stopped = false;
const commands = channel.onCommand(() => {
  stopped = true;
});

for (let number = 1; !stopped; number++) {
  const element = `${setting.name}-${number}`;
  await channel.report({ type: 'update', element, ...(await section.update(element)) });
}

await section[Symbol.asyncDispose]();
await pool.end();
commands[Symbol.dispose]();
