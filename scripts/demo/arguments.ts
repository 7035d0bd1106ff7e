import { parseArgs } from 'node:util';

export interface Arguments {
  readonly json: boolean;
  readonly simulate: boolean;
  readonly help: boolean;
}

/** An argument that the demo does not have. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export const USAGE = `Usage: npm run demo [-- options]

Shows a late write by a holder that has lost its lock: what it does to an account without a guard, and that
the guard refuses it. Ends with 0 if it showed both.

  --json      write one JSON document to stdout, and the story to stderr
  --simulate  play it in one process on a virtual clock, without servers
  --help      show this
`;

/** @throws {@link UsageError} */
export function readArguments(argv: readonly string[]): Arguments {
  try {
    const { values } = parseArgs({
      args: [...argv],
      options: {
        json: { type: 'boolean', default: false },
        simulate: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
      strict: true,
      allowPositionals: false,
    });
    return { json: values.json, simulate: values.simulate, help: values.help };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
