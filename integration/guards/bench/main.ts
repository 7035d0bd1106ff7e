// The benchmark of the guards: `npm run bench:guards`. It measures, and judges nothing: 0 unless it broke. 64: an
// argument that it does not have.
import { availableParallelism, cpus, loadavg } from 'node:os';
import { node22 } from '../../support/node22.ts';
import { runInNode } from '../matrix/other-node.ts';
import { findDriver } from '../sqlite/drivers.ts';
import { type Arguments, readArguments, USAGE, UsageError } from './arguments.ts';
import type { ContestName } from './contestants.ts';
import { type Measured, measure, type Plan } from './measure.ts';
import { summarise, tableOf } from './summary.ts';

const EX_USAGE = 64;

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

async function run({ only, rounds, sliceMs, json }: Arguments): Promise<void> {
  const loadBefore = loadavg()[0];
  const measured = new Map<ContestName, Measured>();
  for (const contest of only) {
    say(`${contest} …`);
    try {
      measured.set(contest, await measureWhereItLoads(contest, { rounds, sliceMs }));
    } catch (error) {
      say(`${contest} could not be measured: ${error instanceof Error ? error.stack : error}`);
      process.exitCode = 1;
    }
  }
  const all = [...measured.values()].flatMap((each) => each.rounds);
  const lines = summarise(all);
  const machine = {
    node: process.version,
    cpu: cpus()[0]?.model,
    cores: availableParallelism(),
    load: { before: loadBefore, after: loadavg()[0] },
    servers: Object.fromEntries([...measured].map(([name, { server }]) => [name, server])),
  };
  if (json) {
    const ratios = Object.fromEntries(lines.map(({ name, ratio }) => [name, rounded(ratio)]));
    const aims = Object.fromEntries(lines.map(({ name, aim }) => [name, aim]));
    process.stdout.write(`${JSON.stringify({ ratios, aims, lines, machine, rounds: all }, null, 2)}\n`);
    return;
  }
  const { node, cpu, cores, load } = machine;
  process.stdout.write(`${tableOf(lines)}\n\nNode ${node}, ${cores} cores (${cpu}), `);
  process.stdout.write(`load ${load.before?.toFixed(1)} before, ${load.after?.toFixed(1)} after\n`);
  process.stdout.write(`${[...new Set(Object.values(machine.servers))].join(', ')}\n`);
}

/** SQLite's driver may need a newer Node than this one. */
async function measureWhereItLoads(contest: ContestName, plan: Plan): Promise<Measured> {
  const drivers = ['node:sqlite', 'better-sqlite3'] as const;
  const here = contest !== 'sqlite' || drivers.some((name) => findDriver(name).driver !== undefined);
  const node = here ? undefined : node22();
  if (node === undefined) return measure(contest, plan);
  const program = new URL('sqlite-worker.ts', import.meta.url);
  return runInNode<Measured>(node, program, [`${plan.rounds}`, `${plan.sliceMs}`]);
}

function rounded(ratio: number): number {
  return Math.round(ratio * 1_000) / 1_000;
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
