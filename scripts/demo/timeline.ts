// The recorded runs as a picture and as a page that need nothing else: times and tokens are those of the record.
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { renderTimeline, renderTimelinePage, type Timeline } from '@lockkeeper/testkit';
import { ENTRY_OF_A, ENTRY_OF_B, type PlayedAct } from './acts.ts';
import { panelOf } from './timeline-panel.ts';
import type { World } from './world.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Where the timeline of the last run is, relative to the repository. */
export interface SavedTimeline {
  /** A picture, for documents. */
  readonly picture: string;
  /** The same as a page to zoom into. */
  readonly page: string;
}

/** Replaces those of the last run. */
export async function saveTimeline(world: World, acts: readonly PlayedAct[]): Promise<SavedTimeline> {
  const timeline = timelineOf(world, acts);
  const name = world.simulated ? 'timeline-simulated' : 'timeline';
  return {
    picture: await save(`${name}.svg`, renderTimeline(timeline)),
    page: await save(`${name}.html`, renderTimelinePage(timeline)),
  };
}

async function save(name: string, text: string): Promise<string> {
  const file = join(ROOT, '.cache', 'demo', name);
  await mkdir(dirname(file), { recursive: true });
  // Whoever looks meanwhile sees the old one or the new one.
  const beside = `${file}.${process.pid}`;
  await writeFile(beside, text);
  await rename(beside, file);
  return relative(ROOT, file);
}

export function timelineOf(world: World, acts: readonly PlayedAct[]): Timeline {
  const { simulated, coordinator, storage } = world;
  const where = simulated ? 'One process, in memory, on a virtual clock' : `${coordinator} and ${storage}`;
  return {
    title: `${simulated ? 'SIMULATED: a' : 'A'} late write, without a guard and with one`,
    subtitle: `${where}. Under one lock A adds ${ENTRY_OF_A.amount} to a balance and B adds ${ENTRY_OF_B.amount}. Each grant of the lock has a token, a number that only rises.`,
    acts: acts.map(({ act, unguarded, guarded }, index) => ({
      title: `Act ${index + 1}: ${act.title}`,
      panels: [panelOf(unguarded, world), panelOf(guarded, world)],
    })),
  };
}
