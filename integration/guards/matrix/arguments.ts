import { parseArgs } from 'node:util';
import { STORAGES, type StorageName } from './storages.ts';

export interface Arguments {
  readonly only: readonly StorageName[];
  readonly format: 'text' | 'json' | 'markdown';
  readonly help: boolean;
}

/** An argument that the program does not have. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const NAMES = Object.keys(STORAGES) as StorageName[];

export const USAGE = `Usage: npm run matrix [-- options]

Lets an old owner pause at each point where a new one can take over, on each storage, with its guard and without,
and counts what is lost. Ends with 0 if no guarded writer lost anything and nothing stale was accepted, else with 1.

  --only A,B  these storages alone: ${NAMES.join(', ')}
  --json      write one JSON document to stdout: { rows, unguarded }
  --markdown  write the table of the documentation to stdout
  --help      show this
`;

/** @throws {@link UsageError} */
export function readArguments(argv: readonly string[]): Arguments {
  const { only, json = false, markdown = false, help = false } = parse(argv);
  if (json && markdown) throw new UsageError('--json and --markdown exclude each other');
  return {
    only: only === undefined ? NAMES : only.split(',').map(storageNamed),
    format: json ? 'json' : markdown ? 'markdown' : 'text',
    help,
  };
}

function parse(argv: readonly string[]) {
  const flag = { type: 'boolean' } as const;
  const options = {
    only: { type: 'string' },
    json: flag,
    markdown: flag,
    help: { ...flag, short: 'h' },
  } as const;
  try {
    return parseArgs({ args: [...argv], options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function storageNamed(text: string): StorageName {
  const name = NAMES.find((each) => each === text.trim());
  if (name !== undefined) return name;
  throw new UsageError(`--only names ${JSON.stringify(text)}; expected some of ${NAMES.join(', ')}`);
}
