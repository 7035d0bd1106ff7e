// The demo: `npm run demo`. 0: it showed a loss without a guard and none with it. 1: it did not, or it broke.
// 64: an argument that it does not have.
import { TestkitError } from '@lockkeeper/testkit';
import { playAll } from './acts.ts';
import { type Arguments, readArguments, USAGE, UsageError } from './arguments.ts';
import { CleanUps } from './clean-ups.ts';
import { documentOf } from './document.ts';
import { Narrator } from './narrator.ts';
import { Page } from './page.ts';
import { realWorld } from './real-world.ts';
import { simulatedWorld } from './simulated-world.ts';
import { saveTimeline } from './timeline.ts';
import { shortcomings } from './verdict.ts';
import type { World } from './world.ts';

const EX_USAGE = 64;

async function chooseWorld({ simulate }: Arguments, cleanUps: CleanUps): Promise<World> {
  if (simulate) return simulatedWorld(cleanUps);
  try {
    process.stderr.write('Starting etcd, PostgreSQL and two workers\n');
    return await realWorld(cleanUps);
  } catch (error) {
    if (!(error instanceof TestkitError && error.code === 'no-server')) throw error;
    process.stderr.write(`${error.message}\nSo the demo is simulated.\n`);
    return simulatedWorld(cleanUps);
  }
}

/** @returns whether it showed what it should. */
async function perform(args: Arguments, cleanUps: CleanUps): Promise<boolean> {
  const world = await chooseWorld(args, cleanUps);
  const narrator = new Narrator(new Page(args.json ? process.stderr : process.stdout), world);
  narrator.begin();
  const acts = await playAll(world, narrator);
  const reasons = shortcomings(acts);
  const timeline = await saveTimeline(world, acts);
  await world.close();
  narrator.end(acts, timeline);
  if (reasons.length > 0) narrator.falseShow(reasons);
  if (args.json) {
    process.stdout.write(`${JSON.stringify(documentOf(world, acts, timeline, reasons), null, 2)}\n`);
  }
  return reasons.length === 0;
}

/** Resolves with the signal that asks us to stop. */
function interruption(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.once(signal, () => resolve(signal));
  });
}

/** Resolves when nobody reads any more what we write: `npm run demo | head`. */
function brokenOutput(): Promise<Error> {
  return new Promise((resolve) => {
    process.stdout.on('error', (cause) => resolve(new Error('stdout was closed', { cause })));
  });
}

async function run(args: Arguments): Promise<void> {
  const cleanUps = new CleanUps();
  // Interrupted, the performance fails when its servers go, which is nothing to report.
  const ended = await Promise.race([
    perform(args, cleanUps).then(
      (showed) => ({ showed }),
      (error: unknown) => ({ error }),
    ),
    interruption().then((signal) => ({ signal })),
    brokenOutput().then((error) => ({ error })),
  ]);
  if ('error' in ended) fail(ended.error);
  else if ('showed' in ended) process.exitCode = ended.showed ? 0 : 1;
  await cleanUps.run().catch(fail);
  // Ends as the signal would have ended it, so that whoever started us sees that.
  if ('signal' in ended) process.kill(process.pid, ended.signal);
}

function fail(error: unknown): void {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : error}\n`);
  process.exitCode = 1;
}

try {
  const args = readArguments(process.argv.slice(2));
  if (args.help) process.stdout.write(USAGE);
  else await run(args);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n\n${USAGE}`);
  process.exitCode = EX_USAGE;
}
