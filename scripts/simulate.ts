// The simulation: `npm run simulate`. 0: no promise was broken. 1: one was, or it broke. 64: an argument that
// it does not have.
import { availableParallelism } from 'node:os';
import { type Arguments, readArguments, USAGE, UsageError } from './simulation/arguments.ts';
import { Crew } from './simulation/crew.ts';
import type { SeedShrunk, SeedViolation, Tally } from './simulation/orders.ts';

const EX_USAGE = 64;
/** So many violations are shrunk and shown; the others are only listed. */
const SHOWN = 3;
const PROGRESS_EVERY_MS = 5_000;

type ShownViolation = SeedViolation & { readonly shrunk?: SeedShrunk };

/** @returns whether no promise was broken. */
async function playMany(args: Arguments, crew: Crew): Promise<boolean> {
  const startedAt = performance.now();
  let saidAt = startedAt;
  const { tally, violations } = await crew.play({
    from: args.from,
    count: args.seeds,
    core: args.core,
    onProgress: (so, found) => {
      if (performance.now() - saidAt < PROGRESS_EVERY_MS) return;
      saidAt = performance.now();
      process.stderr.write(
        `${so.seeds} of ${args.seeds} seeds, ${count(found, 'violation')}, ${pace(so, startedAt)}\n`,
      );
    },
  });
  const speed = pace(tally, startedAt);
  const shown: ShownViolation[] = [];
  for (const [index, violation] of violations.entries()) {
    shown.push(
      index < SHOWN ? { ...violation, shrunk: await crew.shrink(violation.seed, args.core) } : violation,
    );
  }
  if (args.json) {
    const seedsPerSecond = Number(((tally.seeds / (performance.now() - startedAt)) * 1_000).toFixed(1));
    write(JSON.stringify({ from: args.from, ...tally, seedsPerSecond, violations: shown }, null, 2));
  } else {
    for (const violation of shown) tell(violation);
    const hours = (tally.simulatedMs / 3_600_000).toFixed(1);
    write(`${speed}; ${tally.grants} grants, ${tally.losses} losses, ${hours} hours simulated`);
    write(`${count(tally.seeds, 'seed')}, ${count(violations.length, 'violation')}`);
  }
  return violations.length === 0;
}

/** @returns whether no promise was broken. */
async function playOne(seed: number, args: Arguments, crew: Crew): Promise<boolean> {
  const { violation, trace } = await crew.trace(seed, args.core);
  const shrunk = violation === undefined || args.full ? undefined : await crew.shrink(seed, args.core);
  if (args.json) {
    write(
      JSON.stringify(
        { seed, violation, trace: shrunk?.trace ?? trace, shrunk: shrunk !== undefined },
        null,
        2,
      ),
    );
  } else if (violation !== undefined && shrunk !== undefined) {
    tell({ seed, ...violation, shrunk });
  } else {
    for (const line of trace) write(line);
    if (violation !== undefined) tell({ seed, ...violation });
  }
  if (!args.json) write(`1 seed, ${count(violation === undefined ? 0 : 1, 'violation')}`);
  return violation === undefined;
}

function tell({ seed, kind, message, atMs, shrunk }: ShownViolation): void {
  write(`seed ${seed}: ${kind}`);
  if (shrunk === undefined) {
    write(`  ${message}, after ${(atMs / 1_000).toFixed(4)} s`);
  } else {
    const { clients, faults, messages } = shrunk.parts;
    write(`  ${shrunk.message}`);
    write(
      `  shrunk to ${count(clients, 'client')}, ${count(faults, 'fault')}, ${count(messages, 'disturbed message')}:`,
    );
    write();
    for (const line of shrunk.trace) write(line);
    write();
  }
  write(`  again: npm run simulate -- --seed ${seed}`);
  write();
}

function pace({ seeds }: Tally, startedAt: number): string {
  return `${((seeds / (performance.now() - startedAt)) * 1_000).toFixed(1)} seeds per second`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

function write(line = ''): void {
  process.stdout.write(`${line}\n`);
}

try {
  const cores = availableParallelism();
  const args = readArguments(process.argv.slice(2), cores);
  if (args.help) process.stdout.write(USAGE);
  else {
    await using crew = await Crew.start(args.seed === undefined ? args.workers : 1);
    const unbroken =
      args.seed === undefined ? await playMany(args, crew) : await playOne(args.seed, args, crew);
    process.exitCode = unbroken ? 0 : 1;
  }
} catch (error) {
  if (error instanceof UsageError) {
    process.stderr.write(`${error.message}\n\n${USAGE}`);
    process.exitCode = EX_USAGE;
  } else {
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : error}\n`);
    process.exitCode = 1;
  }
}
