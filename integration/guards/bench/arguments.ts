import { parseArgs } from 'node:util';
import { CONTESTANTS, type ContestName } from './contestants.ts';

export interface Arguments {
  readonly only: readonly ContestName[];
  readonly rounds: number;
  readonly sliceMs: number;
  readonly json: boolean;
  readonly help: boolean;
}

/** An argument that the benchmark does not have. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const NAMES = Object.keys(CONTESTANTS) as ContestName[];

export const USAGE = `Usage: npm run bench:guards [-- options]

Measures a guarded write against the same write without a guard, in turns, one and sixteen at a time. A ratio is
that of times: 1.10 means that the guarded write takes a tenth longer.

  --only A,B     these alone: ${NAMES.join(', ')}
  --rounds N     how often each is measured (15)
  --slice-ms N   for how long each time (150)
  --json         write one JSON document to stdout
  --help         show this
`;

/** @throws {@link UsageError} */
export function readArguments(argv: readonly string[]): Arguments {
  const { only, rounds, 'slice-ms': sliceMs, json = false, help = false } = parse(argv);
  return {
    only: only === undefined ? NAMES : only.split(',').map(contestNamed),
    rounds: whole('rounds', rounds) ?? 15,
    sliceMs: whole('slice-ms', sliceMs) ?? 150,
    json,
    help,
  };
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

function contestNamed(text: string): ContestName {
  const name = NAMES.find((each) => each === text.trim());
  if (name !== undefined) return name;
  throw new UsageError(`--only names ${JSON.stringify(text)}; expected some of ${NAMES.join(', ')}`);
}

function whole(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (/^\d+$/.test(value) && Number.isSafeInteger(number) && number >= 1) return number;
  throw new UsageError(`--${name} is ${JSON.stringify(value)}; expected a whole number from 1`);
}
