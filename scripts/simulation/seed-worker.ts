// Plays seeds as its parent orders. The code under test is this repository's, or a changed copy of core.
import { pathToFileURL } from 'node:url';
import { makePlan, type Subject, shrink, simulate } from '@lockkeeper/testkit/simulation';
import { workerChannel } from '@lockkeeper/testkit/worker';
import type { Answer, Order, SeedShrunk, SeedsPlayed, SeedTraced } from './orders.ts';

const channel = workerChannel<Answer, Order>();
let loaded: { readonly core: string | undefined; readonly subject: Subject } | undefined;

async function subjectOf(core: string | undefined): Promise<Subject> {
  if (loaded !== undefined && loaded.core === core) return loaded.subject;
  const [{ connect }, { memoryStore }] =
    core === undefined
      ? await Promise.all([import('@lockkeeper/core'), import('@lockkeeper/core/memory')])
      : await Promise.all(
          ['index.ts', 'memory.ts'].map((file) => import(pathToFileURL(`${core}/${file}`).href)),
        );
  const subject: Subject = { connect, memoryStore };
  loaded = { core, subject };
  return subject;
}

async function play(order: Extract<Order, { type: 'play' }>, subject: Subject): Promise<SeedsPlayed> {
  const played = { seeds: 0, steps: 0, simulatedMs: 0, grants: 0, losses: 0 };
  const violations: SeedsPlayed['violations'][number][] = [];
  for (let seed = order.from; seed < order.from + order.count; seed += 1) {
    const { violation, ...told } = await simulate(makePlan(String(seed)), subject);
    played.seeds += 1;
    for (const key of ['steps', 'simulatedMs', 'grants', 'losses'] as const) played[key] += told[key];
    if (violation === undefined) continue;
    violations.push({ seed, ...violation });
    if (order.stopAtFirst) break;
  }
  return { type: 'played', ...played, violations };
}

async function shrinkSeed(seed: number, subject: Subject): Promise<SeedShrunk> {
  const { plan, simulation, tries } = await shrink(makePlan(String(seed)), subject);
  const parts = {
    clients: plan.clients.length,
    faults: plan.faults.length,
    messages: simulation.disturbed.length,
  };
  const { violation, trace } = simulation;
  return { type: 'shrunk', message: violation?.message ?? '', trace, tries, parts };
}

async function trace(seed: number, subject: Subject): Promise<SeedTraced> {
  const { violation, trace } = await simulate(makePlan(String(seed)), subject, { trace: true });
  return { type: 'traced', violation, trace };
}

channel.onCommand(async (order) => {
  const subject = await subjectOf(order.core);
  switch (order.type) {
    case 'play':
      return channel.report(await play(order, subject));
    case 'shrink':
      return channel.report(await shrinkSeed(order.seed, subject));
    case 'trace':
      return channel.report(await trace(order.seed, subject));
  }
});
