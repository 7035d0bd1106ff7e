// The benchmark of the guards: `npm run bench:guards`.
import { describeMachine, main, say, watchMachine } from '../../bench/command-line.ts';
import { rounded } from '../../bench/figures.ts';
import { node22 } from '../../support/node22.ts';
import { runInNode } from '../matrix/other-node.ts';
import { findDriver } from '../sqlite/drivers.ts';
import { type Arguments, readArguments, USAGE } from './arguments.ts';
import type { ContestName } from './contestants.ts';
import { type Measured, measure, type Plan } from './measure.ts';
import { summarise, tableOf } from './summary.ts';

async function run({ only, rounds, sliceMs, json }: Arguments): Promise<void> {
  const machineAfter = watchMachine();
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
  const servers = Object.fromEntries([...measured].map(([name, { server }]) => [name, server]));
  const machine = { ...machineAfter(), servers };
  if (json) {
    const ratios = Object.fromEntries(lines.map(({ name, ratio }) => [name, rounded(ratio)]));
    const aims = Object.fromEntries(lines.map(({ name, aim }) => [name, aim]));
    process.stdout.write(`${JSON.stringify({ ratios, aims, lines, machine, rounds: all }, null, 2)}\n`);
    return;
  }
  process.stdout.write(`${tableOf(lines)}\n\n${describeMachine(machine)}\n`);
  process.stdout.write(`${[...new Set(Object.values(servers))].join(', ')}\n`);
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

await main(readArguments, USAGE, run);
