// One client as its users would have it, and how it is measured.
import { performance } from 'node:perf_hooks';

export interface Contestant extends AsyncDisposable {
  /** The server, with its version. */
  readonly server: string;
  /** Acquires locks that nobody else wants and releases them, each of so many workers one of its own. */
  run(inFlight: number, ms: number): Promise<Run>;
}

export interface Run {
  /** Pairs of an acquire and a release. */
  readonly perSecond: number;
  /** Of the time that a pair took, milliseconds. */
  readonly latenciesMs: readonly number[];
}

/** How to run a client that is in this process. */
export const inPairs =
  (pair: (worker: number) => Promise<unknown>): Contestant['run'] =>
  async (inFlight, ms) => {
    const latenciesMs: number[] = [];
    const begun = performance.now();
    const work = async (worker: number) => {
      for (let at = performance.now(); at - begun < ms; ) {
        await pair(worker);
        const now = performance.now();
        latenciesMs.push(now - at);
        at = now;
      }
    };
    await Promise.all(Array.from({ length: inFlight }, (_, worker) => work(worker)));
    const seconds = (performance.now() - begun) / 1_000;
    return { perSecond: latenciesMs.length / seconds, latenciesMs };
  };

export const TTL_MS = 30_000;
