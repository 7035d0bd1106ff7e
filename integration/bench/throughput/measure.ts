// Measures all contestants in turns: short slices of each, every round in another order, so that whatever else the
// machine does meanwhile falls on all of them.
import { performance } from 'node:perf_hooks';
import { CONTESTANTS, type Contestant, type ContestantName } from './contestants.ts';

/** How many are acquired or released at once. */
export const LEVELS = [1, 64, 1_000] as const;

/** One slice. */
export interface Slice {
  readonly contestant: ContestantName;
  readonly inFlight: number;
  readonly round: number;
  /** Pairs of an acquire and a release. */
  readonly perSecond: number;
  /** Of the time that a pair took, milliseconds. */
  readonly latenciesMs: readonly number[];
}

export interface Measured {
  readonly servers: Readonly<Record<string, string>>;
  readonly slices: readonly Slice[];
}

export interface Plan {
  readonly rounds: number;
  readonly sliceMs: number;
}

const NAMES = Object.keys(CONTESTANTS) as ContestantName[];

/** @throws what a server could not be started for. */
export async function measure(
  { rounds, sliceMs }: Plan,
  onRound: (inFlight: number, round: number) => void,
): Promise<Measured> {
  const contestants = new Map<ContestantName, Contestant>();
  try {
    for (const name of NAMES) contestants.set(name, await CONTESTANTS[name]());
    const slices = await measureAll(contestants, { rounds, sliceMs }, onRound);
    const servers = Object.fromEntries([...contestants].map(([name, { server }]) => [name, server]));
    return { servers, slices };
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
    for (const each of contestants.values()) await run(each, inFlight, sliceMs / 2);
    for (let round = 0; round < rounds; round += 1) {
      onRound(inFlight, round);
      for (const name of rotated(NAMES, round)) {
        const measured = await run(contestants.get(name) as Contestant, inFlight, sliceMs);
        slices.push({ contestant: name, inFlight, round, ...measured });
      }
    }
  }
  return slices;
}

async function run(
  contestant: Contestant,
  inFlight: number,
  ms: number,
): Promise<Pick<Slice, 'perSecond' | 'latenciesMs'>> {
  const latenciesMs: number[] = [];
  const begun = performance.now();
  const work = async (worker: number) => {
    for (let at = performance.now(); at - begun < ms; ) {
      await contestant.pair(worker);
      const now = performance.now();
      latenciesMs.push(now - at);
      at = now;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, (_, worker) => work(worker)));
  const seconds = (performance.now() - begun) / 1_000;
  return { perSecond: latenciesMs.length / seconds, latenciesMs };
}

function rotated<T>(all: readonly T[], by: number): readonly T[] {
  const at = by % all.length;
  return [...all.slice(at), ...all.slice(0, at)];
}
