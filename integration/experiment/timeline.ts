// The timeline of the experiment: for each group the seconds around its first late write.
import { type History, type Timeline, timelineOfHistory } from '@lockkeeper/testkit';
import { CONTESTANTS, NAMES } from './contestants.ts';
import { TTL_MS } from './group.ts';
import { lateWrites } from './late-writes.ts';
import type { Experiment } from './run-experiment.ts';

const BEFORE_MS = 5_000;
const AFTER_MS = 1_500;

export function timelineOf({ histories, servers, seconds }: Experiment): Timeline {
  return {
    title: 'What pauses do to updates under a lock',
    subtitle: `The first late write of each group, out of ${seconds} s on ${servers}`,
    acts: NAMES.map((contestant) => ({
      title: CONTESTANTS[contestant].replaceAll('`', ''),
      panels: timelineOfHistory(around(histories[contestant])).acts.flatMap(({ panels }) => panels),
    })),
  };
}

/** Its part around the first late write, with the look at the list put at its end. */
export function around(history: History): History {
  const [late] = lateWrites(history, TTL_MS);
  if (late === undefined) return [];
  const [from, to] = [late - BEFORE_MS, late + AFTER_MS];
  const begun = new Set(
    history.flatMap(({ type, atMs, process, ...event }) =>
      type === 'invoke' && atMs >= from && atMs <= to && 'op' in event ? [`${process} ${event.op}`] : [],
    ),
  );
  const within = history.filter((event) =>
    event.type === 'info'
      ? event.atMs >= from && event.atMs <= to
      : event.atMs <= to && begun.has(`${event.process} ${event.op}`),
  );
  const look = history.slice(-2).map((event) => ({ ...event, atMs: to }));
  return [...within, ...look];
}
