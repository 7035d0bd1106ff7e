import type { Finding } from '../history/finding.ts';
import type { History } from '../history/history.ts';
import type { Timeline, TimelineLane, TimelineNote, TimelinePanel } from './model.ts';
import { drawHolds, drawLocks } from './of-history/draw-holds.ts';
import { drawInfos } from './of-history/draw-infos.ts';
import { drawClaims, drawOperation } from './of-history/draw-operations.ts';
import { Scene } from './of-history/scene.ts';

export interface HistoryTimelineOptions {
  /** Default `History`. */
  readonly title?: string | undefined;
  readonly subtitle?: string | undefined;
}

/** With more writes than this, lines from writers to stores would cover the picture. */
const MOST_ARROWS = 120;
const MOST_NOTES = 100;

/**
 * A history as a timeline: a lane for each lock that a watch told of, for each process (more than one where it
 * holds several locks at once), and for each resource that was written. What {@link checkHistory} finds is told
 * above it, and stands out in it.
 */
export function timelineOfHistory(history: History, options: HistoryTimelineOptions = {}): Timeline {
  const { title = 'History', subtitle } = options;
  const panel = panelOf(new Scene(history));
  return { title, subtitle, acts: [{ title: '', panels: [panel] }] };
}

function panelOf(scene: Scene): TimelinePanel {
  drawLocks(scene);
  drawHolds(scene);
  for (const operation of scene.operations) drawOperation(scene, operation);
  drawClaims(scene);
  drawInfos(scene);
  const processes = [...scene.processes.values()].flat();
  const lanes: readonly TimelineLane[] = [...scene.locks.values(), ...processes, ...scene.resources.values()];
  const violations = scene.findings.filter(({ promise }) => promise !== 'none');
  return {
    title: 'What happened',
    verdict: { good: violations.length === 0, text: summaryOf(violations) },
    // A process of which nothing is drawn, such as a watch, needs no lane.
    lanes: lanes.filter(({ spans = [], events = [] }) => spans.length + events.length > 0),
    arrows: scene.arrows.length > MOST_ARROWS ? [] : scene.arrows,
    notes: notesOf(scene),
  };
}

function notesOf(scene: Scene): TimelineNote[] {
  const notes = scene.findings.slice(0, MOST_NOTES).map(({ promise, message, events }): TimelineNote => {
    const shown = events.findLast((event) => scene.places.has(event));
    const lane = shown && scene.places.get(shown);
    return {
      severity: promise === 'none' ? 'observation' : 'violation',
      text: message,
      at: shown && lane !== undefined ? { lane, atMs: scene.at(shown) } : undefined,
    };
  });
  const more = scene.findings.length - notes.length;
  return more > 0 ? [...notes, { severity: 'observation', text: `… and ${more} more` }] : notes;
}

function summaryOf(violations: readonly Finding[]): string {
  const counts = new Map<string, number>();
  for (const { kind } of violations) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  if (counts.size === 0) return 'No promise was broken';
  return [...counts].map(([kind, count]) => `${count} × ${kind.replaceAll('-', ' ')}`).join(', ');
}
