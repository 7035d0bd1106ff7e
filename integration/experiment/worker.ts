// One process of the experiment: updates without end, and reports each step, until it is told to stop.
import { type HistoryMessage, HistoryRecorder, historyMessage } from '@lockkeeper/testkit';
import { workerChannel } from '@lockkeeper/testkit/worker';
import pg from 'pg';
import type { Setting } from './contestants.ts';
import { openCriticalSection } from './critical-section.ts';

const channel = workerChannel<HistoryMessage>();
const setting = JSON.parse(process.argv[2] ?? '') as Setting;
const recorder = new HistoryRecorder({ onEvent: (event) => void channel.report(historyMessage(event)) });
const pool = new pg.Pool({ connectionString: setting.postgresUrl, max: 3 });
// What a query meets is the query's to tell. This is a connection that broke while nobody used it.
pool.on('error', (error) => process.stderr.write(`an idle connection broke: ${error.message}\n`));
const section = await openCriticalSection(setting, pool, recorder.process(setting.name));

let stopped = false;
const commands = channel.onCommand(() => {
  stopped = true;
});
for (let number = 1; !stopped; number++) await section.update(`${setting.name}-${number}`);

await section[Symbol.asyncDispose]();
await pool.end();
commands[Symbol.dispose]();
