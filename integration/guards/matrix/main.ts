// The matrix: `npm run matrix`. 0: no guarded writer lost anything and nothing stale was accepted. 1: something was,
// or it broke, or fewer storages than it takes could be started. 64: an argument that it does not have.
import { type Arguments, readArguments, USAGE, UsageError } from './arguments.ts';
import { runMatrix } from './run-matrix.ts';
import type { Matrix } from './run-storage.ts';
import { markdownOf, textOf } from './table.ts';

const EX_USAGE = 64;
/** Of those that are played by default. */
const LEAST_STORAGES = 6;

const PRINTED = {
  text: textOf,
  markdown: markdownOf,
  json: ({ rows, unguarded }: Matrix) => `${JSON.stringify({ rows, unguarded }, null, 2)}\n`,
};

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

async function run({ only, format }: Arguments): Promise<void> {
  const matrix = await runMatrix(only, say);
  process.stdout.write(PRINTED[format](matrix));
  for (const [name, why] of Object.entries(matrix.missing)) say(`${name} could not be started: ${why}`);
  const problems = shortcomings(matrix, only.length);
  for (const problem of problems) say(problem);
  if (problems.length === 0)
    say(`${matrix.rows.length} plays with a guard: nothing lost, nothing stale accepted`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

function shortcomings({ rows, storages, faults }: Matrix, asked: number): readonly string[] {
  const started = Object.keys(storages).length;
  const least = Math.min(asked, LEAST_STORAGES);
  return [
    ...rows
      .filter(({ lost, staleAccepted }) => lost > 0 || staleAccepted > 0)
      .map((row) => `NOT SAFE: ${JSON.stringify(row)}`),
    ...faults.map((what) => `FAULT: ${what}`),
    ...(started < least ? [`only ${started} of ${asked} storages could be started; it takes ${least}`] : []),
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
