// What a keeper with 1,000 in flight is for another client of the same etcd, which puts a key again and again: beside a
// keeper that batches, beside one that does not, and beside none.
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startEtcd } from '@lockkeeper/testkit';
import { LineProcess } from '../line-process.ts';
import type { Run } from '../throughput/contestant.ts';
import type { Plan } from '../throughput/measure.ts';
import type { ClientName, Order } from './worker.ts';

export const IN_FLIGHT = 1_000;

/** Beside whom. */
export const LOADS = ['none', 'unbatched', 'batched'] as const;
export type Load = (typeof LOADS)[number];

export interface Neighbourhood {
  readonly load: Load;
  readonly round: number;
  /** Of the load, acquires and releases. */
  readonly pairsPerSecond: number;
  /** Of the neighbour's puts. */
  readonly latenciesMs: readonly number[];
}

/** For the load to be in its stride before the neighbour begins, and until it has ended. */
const LEAD_MS = 250;

const worker = fileURLToPath(new URL('worker.ts', import.meta.url));

/** @throws what a server or a process could not be started for. */
export async function measureNeighbour(
  { rounds, sliceMs }: Plan,
  onRound: (round: number) => void,
): Promise<{ readonly server: string; readonly all: readonly Neighbourhood[] }> {
  await using etcd = await startEtcd({ own: true });
  const start = (name: ClientName) => LineProcess.node(worker, [name, etcd.endpoint]);
  await using neighbour = await start('neighbour');
  await using batched = await start('batched');
  await using unbatched = await start('unbatched');
  const keepers = { batched, unbatched, none: undefined } as const;
  const run = async (client: LineProcess, order: Order) => (await client.ask(order)) as Run;
  const all: Neighbourhood[] = [];
  // The first is not counted: connections, the compiler.
  for (let round = -1; round < rounds; round += 1) {
    if (round >= 0) onRound(round);
    for (const load of LOADS) {
      const keeper = keepers[load];
      const loaded = keeper && run(keeper, { inFlight: IN_FLIGHT, ms: sliceMs + 2 * LEAD_MS });
      await sleep(LEAD_MS);
      const { latenciesMs } = await run(neighbour, { inFlight: 1, ms: sliceMs });
      const pairsPerSecond = (await loaded)?.perSecond ?? 0;
      if (round >= 0) all.push({ load, round, pairsPerSecond, latenciesMs });
    }
  }
  return { server: `etcd ${etcd.version}`, all };
}
