// The plot. The same in every world, with a guard and without one.
import type { Entry } from './add-entry.ts';
import { Story, type StoryEvent } from './story.ts';
import { type ActResult, type RunResult, resultOf } from './verdict.ts';
import type { Hindrance, World } from './world.ts';

export interface Act {
  readonly name: string;
  readonly title: string;
  readonly hindrance: Hindrance;
}

export const ACTS: readonly Act[] = [
  {
    name: 'paused-holder',
    title: 'A is paused between its check and its write',
    hindrance: 'pause',
  },
  {
    name: 'write-in-flight',
    title: "A's write is already on its way when A loses the lock",
    hindrance: 'outage',
  },
];

export const ENTRY_OF_A: Entry = { id: 'A-1', amount: 30 };
export const ENTRY_OF_B: Entry = { id: 'B-1', amount: 50 };

export interface PlayedRun extends RunResult {
  readonly guarded: boolean;
  readonly events: readonly StoryEvent[];
}

export interface PlayedAct extends ActResult {
  readonly act: Act;
  readonly unguarded: PlayedRun;
  readonly guarded: PlayedRun;
}

/** Who is told while it happens. */
export interface Audience {
  actBegins(act: Act, number: number): void;
  runBegins(guarded: boolean): void;
  happened(events: readonly StoryEvent[]): void;
  runEnded(run: PlayedRun): void;
}

export async function playAll(world: World, audience: Audience): Promise<readonly PlayedAct[]> {
  const played: PlayedAct[] = [];
  for (const [index, act] of ACTS.entries()) {
    audience.actBegins(act, index + 1);
    const unguarded = await play(world, act, false, audience);
    const guarded = await play(world, act, true, audience);
    played.push({ name: act.name, act, unguarded, guarded });
  }
  return played;
}

async function play(world: World, act: Act, guarded: boolean, audience: Audience): Promise<PlayedRun> {
  const { hindrance } = act;
  audience.runBegins(guarded);
  const story = new Story(world.now());
  const tellNews = () => audience.happened(story.takeNews());
  const name = `${act.name}-${guarded ? 'guarded' : 'unguarded'}`;
  const stage = await world.open({ name, hindrance, guarded }, (fact, at = world.now()) =>
    story.record(fact, at),
  );
  try {
    await stage.startA(ENTRY_OF_A);
    tellNews();
    await stage.runB(ENTRY_OF_B);
    tellNews();
    await stage.letAGoOn();
    const found = await stage.readAccount();
    tellNews();
    const run = { guarded, ...resultOf(story.events, found), events: story.events };
    audience.runEnded(run);
    return run;
  } finally {
    await stage.close();
  }
}
