// Where the events of a run lie from left to right: in order, far enough apart to be read, and the rest of the
// width shared out in proportion to the time that passed.
import type { StoryEvent } from './story.ts';

export interface Placed {
  readonly event: StoryEvent;
  readonly x: number;
}

const BETWEEN_EVENTS = 20;
const WITHIN_A_LANE = 76;

/** How wide the events have to be spread, in pixels. */
export function leastWidth(events: readonly StoryEvent[]): number {
  return leastPlaces(events).at(-1) ?? 0;
}

export function placed(events: readonly StoryEvent[], from: number, to: number): readonly Placed[] {
  const least = leastPlaces(events);
  const spare = Math.max(0, to - from - (least.at(-1) ?? 0));
  const began = events[0]?.atMs ?? 0;
  const duration = Math.max(1, (events.at(-1)?.atMs ?? 0) - began);
  return events.map((event, index) => ({
    event,
    x: from + (least[index] ?? 0) + (spare * (event.atMs - began)) / duration,
  }));
}

function leastPlaces(events: readonly StoryEvent[]): readonly number[] {
  const lastInLane = new Map<StoryEvent['who'], number>();
  let last = -BETWEEN_EVENTS;
  return events.map((event) => {
    last = Math.max(last + BETWEEN_EVENTS, (lastInLane.get(event.who) ?? -WITHIN_A_LANE) + WITHIN_A_LANE);
    lastInLane.set(event.who, last);
    return last;
  });
}
