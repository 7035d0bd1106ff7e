import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

export interface Arguments {
  readonly seeds: number;
  readonly from: number;
  /** Play this one only. */
  readonly seed: number | undefined;
  readonly full: boolean;
  readonly workers: number;
  /** The folder of a changed copy of core's sources. */
  readonly core: string | undefined;
  readonly json: boolean;
  readonly help: boolean;
}

/** An argument that the simulation does not have. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export const USAGE = `Usage: npm run simulate -- [options]

Plays seeded worlds of clients, locks and faults against the real session, lock and guard code, and checks
after every step what the protocol promises. Ends with 0 if no promise was broken, else with 1.

  --seeds N    how many seeds (2000)
  --from S     the first of them (1)
  --seed S     play one seed and print its trace; a violation is shrunk first
  --full       with --seed: print the trace as it is, not shrunk
  --workers N  how many processes (one for each core)
  --core DIR   put a changed copy of packages/core/src to the test instead
  --json       write one JSON document to stdout, and progress to stderr
  --help       show this
`;

/** @throws {@link UsageError} */
export function readArguments(argv: readonly string[], cores: number): Arguments {
  const values = parse(argv);
  return {
    seeds: whole('seeds', values.seeds, 1) ?? 2_000,
    from: whole('from', values.from, 0) ?? 1,
    seed: whole('seed', values.seed, 0),
    full: values.full ?? false,
    workers: whole('workers', values.workers, 1) ?? cores,
    core: values.core === undefined ? undefined : resolve(values.core),
    json: values.json ?? false,
    help: values.help ?? false,
  };
}

function parse(argv: readonly string[]) {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  try {
    return parseArgs({
      args: [...argv],
      options: {
        seeds: text,
        from: text,
        seed: text,
        full: flag,
        workers: text,
        core: text,
        json: flag,
        help: { ...flag, short: 'h' },
      },
      strict: true,
      allowPositionals: false,
    }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function whole(name: string, value: string | undefined, least: number): number | undefined {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (/^\d+$/.test(value) && Number.isSafeInteger(number) && number >= least) return number;
  throw new UsageError(`--${name} is ${JSON.stringify(value)}; expected a whole number from ${least}`);
}
