import { type Arguments as Common, readArguments as read } from '../../bench/command-line.ts';
import { CONTESTANTS, type ContestName } from './contestants.ts';

export type Arguments = Common<ContestName>;

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

/** @throws UsageError */
export function readArguments(argv: readonly string[]): Arguments {
  return read(argv, NAMES, { rounds: 15, sliceMs: 150 });
}
