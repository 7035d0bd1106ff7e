import { parseArgs } from 'node:util';

export interface Arguments {
  /** How long the processes work, at least. */
  readonly seconds: number;
  readonly format: 'text' | 'markdown' | 'json';
  /** Where to draw the timeline, if anywhere: a path without `.svg` and `.html`. */
  readonly timeline: string | undefined;
  readonly help: boolean;
}

/** An argument that the experiment does not have. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const DEFAULT_SECONDS = 600;
const MOST_SECONDS = 24 * 60 * 60;

export const USAGE = `Usage: npm run experiment -- [options]

Five processes append to a list under one lock whose lease is 2 s; each is stopped (SIGSTOP) about every 5 s for 1.5 to
5 s. Three such groups run side by side: the lock of the etcd3 package, Lockkeeper's without a guard, Lockkeeper's with
one. Counts the acknowledged updates that are not in the list afterwards.
Ends with 0 if the group with a guard lost none, and each of the others some.

  --seconds <n>  how long, at least; ${DEFAULT_SECONDS} by default. Goes on to three times that while a group without a
                 guard has lost nothing: then too few pauses hit a holder to show anything
  --markdown     print the table for the documentation
  --json         write one JSON document to stdout, and progress to stderr
  --timeline <path>
                 draw each group's first late write: <path>.svg, and <path>.html to zoom into
  --help         show this
`;

/** @throws {@link UsageError} */
export function readArguments(argv: readonly string[]): Arguments {
  const { values } = parse(argv);
  if (values.json && values.markdown) throw new UsageError('--json and --markdown exclude each other');
  const seconds = Number(values.seconds ?? DEFAULT_SECONDS);
  if (!(Number.isInteger(seconds) && seconds >= 1 && seconds <= MOST_SECONDS)) {
    throw new UsageError(
      `--seconds is "${values.seconds}"; expected a whole number from 1 to ${MOST_SECONDS}`,
    );
  }
  const format = values.json ? 'json' : values.markdown ? 'markdown' : 'text';
  return { seconds, format, timeline: values.timeline, help: values.help };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      options: {
        seconds: { type: 'string' },
        markdown: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        timeline: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
      strict: true,
      allowPositionals: false,
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
