// Measures all contestants in turns: short slices of each, every round in another order, so that whatever else the
// machine does meanwhile falls on all of them.
import type { Contestant, Run } from './contestant.ts';
import { CONTESTANTS, type ContestantName } from './contestants.ts';

/** How many are acquired or released at once. */
export const LEVELS = [1, 64, 1_000] as const;

/** One slice. */
export interface Slice extends Run {
  readonly contestant: ContestantName;
  readonly inFlight: number;
  readonly round: number;
}

export interface Measured {
  readonly servers: Readonly<Record<string, string>>;
  /** Why some could not be measured. */
  readonly missing: Readonly<Record<string, string>>;
  readonly slices: readonly Slice[];
}

export interface Plan {
  readonly rounds: number;
  readonly sliceMs: number;
}

/** @throws what a server could not be started for. */
export async function measure(
  { rounds, sliceMs }: Plan,
  onRound: (inFlight: number, round: number) => void,
): Promise<Measured> {
  const contestants = new Map<ContestantName, Contestant>();
  const missing: Record<string, string> = {};
  try {
    for (const name of Object.keys(CONTESTANTS) as ContestantName[]) {
      const contestant = await CONTESTANTS[name]();
      if ('missing' in contestant) missing[name] = contestant.missing;
      else contestants.set(name, contestant);
    }
    const slices = await measureAll(contestants, { rounds, sliceMs }, onRound);
    const servers = Object.fromEntries([...contestants].map(([name, { server }]) => [name, server]));
    return { servers, missing, slices };
  } finally {
    for (const each of contestants.values()) await each[Symbol.asyncDispose]();
  }
}

async function measureAll(
  contestants: ReadonlyMap<ContestantName, Contestant>,
  { rounds, sliceMs }: Plan,
  onRound: (inFlight: number, round: number) => void,
): Promise<readonly Slice[]> {
  const slices: Slice[] = [];
  for (const inFlight of LEVELS) {
    // Connections, prepared statements, the compiler.
    for (const each of contestants.values()) await each.run(inFlight, sliceMs / 2);
    for (let round = 0; round < rounds; round += 1) {
      onRound(inFlight, round);
      for (const [contestant, client] of rotated([...contestants], round)) {
        slices.push({ contestant, inFlight, round, ...(await client.run(inFlight, sliceMs)) });
      }
    }
  }
  return slices;
}

function rotated<T>(all: readonly T[], by: number): readonly T[] {
  const at = by % all.length;
  return [...all.slice(at), ...all.slice(0, at)];
}
