// The experiment: `npm run experiment`. 0: the group with a guard lost nothing, and each of the others something. 1: not
// so, or it broke. 64: an argument that it does not have.
import { type Arguments, readArguments, USAGE, UsageError } from './arguments.ts';
import { type Experiment, runExperiment, showsLosses } from './run-experiment.ts';
import { markdownOf, textOf } from './table.ts';

const EX_USAGE = 64;

const PRINTED = {
  text: textOf,
  markdown: markdownOf,
  json: (experiment: Experiment) => `${JSON.stringify(experiment, null, 2)}\n`,
};

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

async function run({ seconds, format }: Arguments): Promise<void> {
  const experiment = await runExperiment(seconds, say);
  process.stdout.write(PRINTED[format](experiment));
  const guarded = experiment.rows.find(({ contestant }) => contestant === 'guarded');
  const problems = [
    ...(guarded?.lost === 0 ? [] : [`NOT SAFE: with a guard ${guarded?.lost} acknowledged updates are lost`]),
    ...(guarded?.acknowledged ? [] : ['with a guard nothing was acknowledged']),
    ...(showsLosses(experiment.rows) ? [] : ['a group without a guard lost nothing: this run shows nothing']),
  ];
  for (const problem of problems) say(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
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
