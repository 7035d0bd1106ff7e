// The command line that the benchmarks share, and what they say of the machine.
import { availableParallelism, cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';

export interface Arguments<Name extends string> {
  readonly only: readonly Name[];
  readonly rounds: number;
  readonly sliceMs: number;
  readonly json: boolean;
  readonly help: boolean;
}

/** An argument that the benchmark does not have. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const EX_USAGE = 64;

export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** @throws {@link UsageError} */
export function readArguments<Name extends string>(
  argv: readonly string[],
  names: readonly Name[],
  defaults: { readonly rounds: number; readonly sliceMs: number },
): Arguments<Name> {
  const { only, rounds, 'slice-ms': sliceMs, json = false, help = false } = parse(argv);
  return {
    only: only === undefined ? names : only.split(',').map((text) => named(text.trim(), names)),
    rounds: whole('rounds', rounds) ?? defaults.rounds,
    sliceMs: whole('slice-ms', sliceMs) ?? defaults.sliceMs,
    json,
    help,
  };
}

/** Runs a benchmark. It measures, and judges nothing: 0 unless it broke; 64 for a wrong argument. */
export async function main<Args extends { readonly help: boolean }>(
  read: (argv: readonly string[]) => Args,
  usage: string,
  run: (args: Args) => Promise<void>,
): Promise<void> {
  try {
    const args = read(process.argv.slice(2));
    if (args.help) process.stdout.write(usage);
    else await run(args);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    say(`${error.message}\n\n${usage}`);
    process.exitCode = EX_USAGE;
  }
}

export interface Machine {
  readonly node: string;
  readonly cpu: string | undefined;
  readonly cores: number;
  readonly load: { readonly before: number; readonly after: number };
}

/** Called before; what it returns is called after. */
export function watchMachine(): () => Machine {
  const load = () => loadavg()[0] ?? Number.NaN;
  const before = load();
  return () => ({
    node: process.version,
    cpu: cpus()[0]?.model,
    cores: availableParallelism(),
    load: { before, after: load() },
  });
}

export function describeMachine({ node, cpu, cores, load }: Machine): string {
  const [before, after] = [load.before, load.after].map((each) => each.toFixed(1));
  return `Node ${node}, ${cores} cores (${cpu}), load ${before} before, ${after} after`;
}

function parse(argv: readonly string[]) {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const options = {
    only: text,
    rounds: text,
    'slice-ms': text,
    json: flag,
    help: { ...flag, short: 'h' },
  } as const;
  try {
    return parseArgs({ args: [...argv], options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function named<Name extends string>(text: string, names: readonly Name[]): Name {
  const name = names.find((each) => each === text);
  if (name !== undefined) return name;
  throw new UsageError(`--only names ${JSON.stringify(text)}; expected some of ${names.join(', ')}`);
}

function whole(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (/^\d+$/.test(value) && Number.isSafeInteger(number) && number >= 1) return number;
  throw new UsageError(`--${name} is ${JSON.stringify(value)}; expected a whole number from 1`);
}
