import { SMALL } from './lane.ts';
import type { Timeline, TimelineEvent, TimelineSpan } from './model.ts';
import { layOutPanel, type PanelLayout, panelEnd, widen } from './panel.ts';
import { EVENT_NAMES, SPAN_NAMES } from './style.ts';
import { textWidth } from './text-width.ts';

/** Where everything goes, in pixels: the drawing decides nothing. */
export interface TimelineLayout {
  readonly width: number;
  readonly height: number;
  readonly margin: number;
  readonly acts: readonly ActLayout[];
  readonly legend: readonly PlacedLegendEntry[];
  readonly legendY: number;
}

export interface ActLayout {
  readonly title: string;
  readonly titleY: number;
  readonly panels: readonly PanelLayout[];
}

export type LegendEntry = { readonly text: string } & (
  | { readonly shape: 'mark'; readonly kind: TimelineEvent['kind'] }
  | { readonly shape: 'span'; readonly kind: TimelineSpan['kind'] }
);

export type PlacedLegendEntry = LegendEntry & { readonly x: number; readonly y: number };

const MARGIN = 28;

export function layOut(timeline: Timeline): TimelineLayout {
  const gutter = gutterOf(timeline);
  const acts: ActLayout[] = [];
  let y = timeline.subtitle === undefined ? 44 : 66;
  for (const act of timeline.acts) {
    const titleY = y + 30;
    const panels: PanelLayout[] = [];
    y = titleY + 8;
    for (const panel of act.panels) {
      const laid = layOutPanel(panel, { x: MARGIN, top: y, left: MARGIN + gutter });
      panels.push(laid);
      y = laid.plot.bottom + 38;
    }
    acts.push({ title: act.title, titleY, panels });
  }
  const ends = acts.flatMap(({ title, panels }) => [
    MARGIN + textWidth(title, 16.5, 'bold'),
    ...panels.map(panelEnd),
  ]);
  const [titleEnd, subtitleEnd] = [
    textWidth(timeline.title, 21, 'bold'),
    textWidth(timeline.subtitle ?? '', 13.5),
  ];
  const right = Math.ceil(Math.max(640 - MARGIN, MARGIN + titleEnd, MARGIN + subtitleEnd, ...ends));
  const widened = acts.map((act) => ({ ...act, panels: act.panels.map((panel) => widen(panel, right)) }));
  const legend = layOutLegend(timeline, right - MARGIN);
  const legendHeight = Math.max(0, ...legend.map((entry) => entry.y + 24));
  const height = y + legendHeight + 34;
  return { width: right + MARGIN, height, margin: MARGIN, acts: widened, legend, legendY: y + 8 };
}

/** The room that the names of all lanes need. */
export function gutterOf(timeline: Timeline): number {
  const lanes = timeline.acts.flatMap((act) => act.panels.flatMap((panel) => panel.lanes));
  return Math.ceil(
    Math.max(
      90,
      ...lanes.map(({ label }) => textWidth(label, 14, 'bold') + 16),
      ...lanes.map(({ note }) => textWidth(note ?? '', SMALL) + 16),
    ),
  );
}

function layOutLegend(timeline: Timeline, width: number): PlacedLegendEntry[] {
  let [x, y] = [0, 0];
  return legendOf(timeline).map((entry) => {
    const needed = (entry.shape === 'span' ? 34 : 22) + textWidth(entry.text, SMALL) + 18;
    if (x > 0 && x + needed > width) [x, y] = [0, y + 24];
    const placed = { ...entry, x, y };
    x += needed;
    return placed;
  });
}

/** What there is to explain in this timeline, and no more. */
export function legendOf(timeline: Timeline): LegendEntry[] {
  const lanes = timeline.acts.flatMap((act) => act.panels.flatMap((panel) => panel.lanes));
  const spanKinds = new Set(lanes.flatMap((lane) => (lane.spans ?? []).map(({ kind }) => kind)));
  const eventKinds = new Set(lanes.flatMap((lane) => (lane.events ?? []).map(({ kind }) => kind)));
  return [
    ...keysOf(SPAN_NAMES)
      .filter((kind) => spanKinds.has(kind))
      .map((kind) => ({ shape: 'span' as const, kind, text: SPAN_NAMES[kind] })),
    ...keysOf(EVENT_NAMES)
      .filter((kind) => eventKinds.has(kind))
      .map((kind) => ({ shape: 'mark' as const, kind, text: EVENT_NAMES[kind] })),
  ];
}

function keysOf<K extends string>(record: Readonly<Record<K, unknown>>): K[] {
  return Object.keys(record) as K[];
}
