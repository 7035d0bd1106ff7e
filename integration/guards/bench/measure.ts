// Measures two ways to do the same in turns: short slices of each, in changing order, so that whatever else the
// machine does meanwhile falls on both.
import { performance } from 'node:perf_hooks';
import { CONTESTANTS, type Contest, type ContestName, LEVELS } from './contestants.ts';

/** One slice of each. */
export interface Round {
  readonly contest: ContestName;
  readonly parallel: number;
  /** Milliseconds a call took of the slice: its length, divided by how many calls ended in it. */
  readonly guardedMs: number;
  readonly plainMs: number;
}

export interface Measured {
  readonly server: string;
  readonly rounds: readonly Round[];
}

export interface Plan {
  readonly rounds: number;
  readonly sliceMs: number;
}

/** @throws what the storage could not be started for. */
export async function measure(contest: ContestName, { rounds, sliceMs }: Plan): Promise<Measured> {
  await using pair = await CONTESTANTS[contest]();
  const measured: Round[] = [];
  for (const parallel of LEVELS) {
    const slice = (way: 'guarded' | 'plain', ms = sliceMs) => msPerCall(() => pair[way](), parallel, ms);
    // Connections, prepared statements, the compiler.
    await slice('plain', 2 * sliceMs);
    await slice('guarded', 2 * sliceMs);
    for (let round = 0; round < rounds; round += 1) {
      const plainFirst = round % 2 === 0;
      const before = plainFirst ? await slice('plain') : await slice('guarded');
      const after = plainFirst ? await slice('guarded') : await slice('plain');
      const [plainMs, guardedMs] = plainFirst ? [before, after] : [after, before];
      measured.push({ contest, parallel, guardedMs, plainMs });
    }
  }
  return { server: pair.server, rounds: measured };
}

async function msPerCall(call: Contest['plain'], parallel: number, ms: number): Promise<number> {
  let calls = 0;
  const begun = performance.now();
  const one = async () => {
    while (performance.now() - begun < ms) {
      await call();
      calls += 1;
    }
  };
  await Promise.all(Array.from({ length: parallel }, one));
  return (performance.now() - begun) / calls;
}
