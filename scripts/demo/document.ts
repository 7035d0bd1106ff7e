// What --json writes.
import type { PlayedAct, PlayedRun } from './acts.ts';
import { tell } from './telling.ts';
import type { SavedTimeline } from './timeline.ts';
import { totalOf } from './verdict.ts';
import type { World } from './world.ts';

/** The whole demo as one document: everything in it was measured, tokens are text. */
export function documentOf(
  world: World,
  acts: readonly PlayedAct[],
  { picture, page }: SavedTimeline,
  shortcomings: readonly string[],
): object {
  const { coordinator, storage, simulated, ttlMs } = world;
  return {
    coordinator,
    storage,
    simulated,
    ttlMs,
    unguarded: totalOf(acts.map((act) => act.unguarded)),
    guarded: totalOf(acts.map((act) => act.guarded)),
    acts: acts.map(({ act, unguarded, guarded }) => ({
      name: act.name,
      title: act.title,
      unguarded: withoutEvents(unguarded),
      guarded: withoutEvents(guarded),
      events: [...eventsOf(world, unguarded), ...eventsOf(world, guarded)],
    })),
    timeline: picture,
    page,
    shortcomings,
  };
}

function withoutEvents({ events, guarded, ...result }: PlayedRun): object {
  return result;
}

function eventsOf({ names, simulated }: World, { guarded, events }: PlayedRun): readonly object[] {
  return events.map((event, index) => {
    const { who, what } = tell(event, { names, simulated, before: events.slice(0, index) });
    const { kind, atMs, who: _, ...data } = event;
    return { run: guarded ? 'guarded' : 'unguarded', atMs: Math.round(atMs), who, kind, ...data, what };
  });
}
