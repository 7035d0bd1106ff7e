// The experiment: `npm run experiment`. 0: the group with a guard lost nothing, and each of the others something. 1: not
// so, or it broke. 64: an argument that it does not have.
import { writeFile } from 'node:fs/promises';
import { checkHistory, renderTimeline, renderTimelinePage, violationsIn } from '@lockkeeper/testkit';
import { type Arguments, readArguments, USAGE, UsageError } from './arguments.ts';

import { type Experiment, runExperiment, showsLosses } from './run-experiment.ts';
import { markdownOf, textOf } from './table.ts';
import { timelineOf } from './timeline.ts';

const EX_USAGE = 64;

const PRINTED = {
  text: textOf,
  markdown: markdownOf,
  json: ({ histories: _, ...told }: Experiment) => `${JSON.stringify(told, null, 2)}\n`,
};

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

async function run({ seconds, format, timeline }: Arguments): Promise<void> {
  const experiment = await runExperiment(seconds, say);
  process.stdout.write(PRINTED[format](experiment));
  if (timeline !== undefined) {
    const drawn = timelineOf(experiment);
    await writeFile(`${timeline}.svg`, renderTimeline(drawn));
    await writeFile(`${timeline}.html`, renderTimelinePage(drawn));
  }
  const problems = shortcomings(experiment);
  for (const problem of problems) say(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

function shortcomings({ rows, histories }: Experiment): readonly string[] {
  const broken = violationsIn(checkHistory(histories.guarded));
  // Two grants out of order would be the lock's fault, which no guard is an excuse for.
  const lockFaults = checkHistory(histories.lock).filter(({ promise }) => promise === 'lock');
  return [
    ...[...broken, ...lockFaults].map(({ kind, message }) => `NOT SAFE: ${kind}: ${message}`),
    ...rows
      .filter(({ acknowledged }) => acknowledged === 0)
      .map(({ contestant }) => `${contestant}: nothing was acknowledged`),
    ...(showsLosses(rows) ? [] : ['a group without a guard lost nothing: this run shows nothing']),
  ];
}

try {
  const args = readArguments(process.argv.slice(2));
  if (args.help) process.stdout.write(USAGE);
  else await run(args);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  say(`${error.message}\n\n${USAGE}`);
  process.exitCode = EX_USAGE;
}
