import {
  type EventLayout,
  type LaneContext,
  type LaneLayout,
  labelWidth,
  layOutLane,
  SMALL,
  type SpanLayout,
} from './timeline-lane.ts';
import type { Timeline, TimelineAct, TimelineEvent, TimelineSpan } from './timeline-model.ts';
import { type TimeScale, tickTimes, timeScale } from './timeline-scale.ts';
import { EVENT_NAMES, SPAN_NAMES, TONES } from './timeline-style.ts';
import { textWidth } from './timeline-text.ts';

/** Where everything goes, in pixels: the drawing decides nothing. */
export interface TimelineLayout {
  readonly width: number;
  readonly height: number;
  readonly margin: number;
  readonly acts: readonly ActLayout[];
  readonly legend: readonly LegendEntry[];
  readonly legendY: number;
}

export interface ActLayout {
  readonly x: number;
  readonly title: string;
  readonly titleY: number;
  readonly verdict: TimelineAct['verdict'];
  readonly verdictY: number;
  readonly plot: {
    readonly left: number;
    readonly right: number;
    readonly top: number;
    readonly bottom: number;
  };
  readonly ticks: readonly { readonly x: number; readonly label: string }[];
  readonly lanes: readonly LaneLayout[];
  readonly spans: readonly SpanLayout[];
  readonly events: readonly EventLayout[];
  readonly arrows: readonly ArrowLayout[];
  /** Everything that happens, in order. */
  readonly story: readonly { readonly time: string; readonly lane: string; readonly label: string }[];
}

export interface ArrowLayout {
  readonly kind: 'plain' | 'applied' | 'refused';
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
}

export type LegendEntry = { readonly x: number; readonly y: number; readonly text: string } & (
  | { readonly shape: 'mark'; readonly kind: TimelineEvent['kind'] }
  | { readonly shape: 'span'; readonly kind: TimelineSpan['kind'] }
);

const MARGIN = 28;
const PLOT_WIDTH = 860;
/** Closer together than this, two moments could not be told apart. */
const MOMENT_GAP = 22;

export function layOut(timeline: Timeline): TimelineLayout {
  const names = timeline.acts.flatMap((act) => act.lanes);
  const gutter = Math.max(
    90,
    ...names.map(({ label }) => textWidth(label, 14.5) + 22),
    ...names.map(({ note }) => textWidth(note ?? '', SMALL) + 22),
  );
  const acts: ActLayout[] = [];
  let y = timeline.subtitle === undefined ? 48 : 70;
  for (const act of timeline.acts) {
    const laid = layOutAct(act, y, MARGIN + gutter);
    acts.push(laid);
    y = laid.plot.bottom + 44;
  }
  const width = Math.ceil(Math.max(640, ...textEnds(timeline, acts)) + MARGIN);
  const widened = acts.map((act) => ({ ...act, plot: { ...act.plot, right: width - MARGIN } }));
  const legend = layOutLegend(timeline, width - 2 * MARGIN);
  const legendHeight = Math.max(0, ...legend.map((entry) => entry.y + 24));
  return { width, height: y + legendHeight + 34, margin: MARGIN, acts: widened, legend, legendY: y + 8 };
}

/** How far to the right anything reaches. */
function textEnds(timeline: Timeline, acts: readonly ActLayout[]): number[] {
  return [
    MARGIN + textWidth(timeline.title, 23),
    MARGIN + textWidth(timeline.subtitle ?? '', 13.5),
    ...acts.flatMap(({ plot, title, verdict, events, spans }) => [
      plot.right,
      MARGIN + textWidth(title, 17.5),
      MARGIN + 18 + textWidth(verdict?.text ?? '', 14),
      ...events.map((event) => event.labelX + labelWidth(event)),
      ...spans.map(({ label }) => (label === undefined ? 0 : label.x + textWidth(label.text, SMALL))),
    ]),
  ];
}

function layOutAct(act: TimelineAct, top: number, left: number): ActLayout {
  const moments = momentsOf(act);
  const originMs = act.originMs ?? Math.min(...moments);
  const scale = timeScale(moments, left + 16, PLOT_WIDTH, MOMENT_GAP);
  const decimals = hasNeighbours(moments) ? 3 : 2;
  const time = (ms: number) => ((ms - originMs) / 1000).toFixed(decimals);
  const toneOf = tonesOf(act);
  const titleY = top + 24;
  const verdictY = titleY + 22;
  const plotTop = (act.verdict === undefined ? titleY : verdictY) + 14;

  const lanes = new Map<string, LaneLayout>();
  const spans: SpanLayout[] = [];
  const events: EventLayout[] = [];
  let y = plotTop;
  for (const lane of act.lanes) {
    const context: LaneContext = { scale, time, toneOf, targets: targetsOf(act, lane.id) };
    const laid = layOutLane(lane, y, context);
    lanes.set(lane.id, laid.lane);
    spans.push(...laid.spans);
    events.push(...laid.events);
    y = laid.lane.bottom;
  }
  const right = Math.max(left + 16 + PLOT_WIDTH, scale.x(Math.max(...moments))) + 16;
  return {
    x: MARGIN,
    title: act.title,
    titleY,
    verdict: act.verdict,
    verdictY,
    plot: { left, right, top: plotTop, bottom: y },
    ticks: layOutTicks(moments, originMs, scale),
    lanes: [...lanes.values()],
    spans,
    events,
    arrows: (act.arrows ?? []).map((arrow) => layOutArrow(arrow, lanes, scale)),
    story: tell(act, time),
  };
}

function layOutArrow(
  arrow: NonNullable<TimelineAct['arrows']>[number],
  lanes: ReadonlyMap<string, LaneLayout>,
  scale: TimeScale,
): ArrowLayout {
  const end = ({ lane, atMs }: { lane: string; atMs: number }) => {
    const middle = lanes.get(lane)?.middle;
    if (middle === undefined)
      throw new RangeError(`timeline: an arrow names the lane "${lane}", which is not there`);
    return { x: scale.x(atMs), y: middle };
  };
  const [from, to] = [end(arrow.from), end(arrow.to)];
  // It starts and ends at the edge of the marks, not in them.
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [dx, dy] = [((to.x - from.x) / length) * 9, ((to.y - from.y) / length) * 9];
  return { kind: arrow.kind ?? 'plain', x1: from.x + dx, y1: from.y + dy, x2: to.x - dx, y2: to.y - dy };
}

function layOutTicks(moments: readonly number[], originMs: number, scale: TimeScale): ActLayout['ticks'] {
  const [first, last] = [Math.min(...moments) - originMs, Math.max(...moments) - originMs];
  const { times, stepMs } = tickTimes(first, last);
  const decimals = Math.max(0, -Math.floor(Math.log10(stepMs / 1000)));
  let lastLabelled = Number.NEGATIVE_INFINITY;
  return times.map((ms) => {
    const x = scale.x(ms + originMs);
    const fits = x - lastLabelled >= 40;
    if (fits) lastLabelled = x;
    return { x, label: fits ? `${(ms / 1000).toFixed(decimals)} s` : '' };
  });
}

function layOutLegend(timeline: Timeline, width: number): LegendEntry[] {
  const lanes = timeline.acts.flatMap((act) => act.lanes);
  const spanKinds = new Set(lanes.flatMap((lane) => (lane.spans ?? []).map(({ kind }) => kind)));
  const eventKinds = new Set(lanes.flatMap((lane) => (lane.events ?? []).map(({ kind }) => kind)));
  const wanted = [
    ...keysOf(SPAN_NAMES)
      .filter((kind) => spanKinds.has(kind))
      .map((kind) => ({ shape: 'span' as const, kind, text: SPAN_NAMES[kind] })),
    ...keysOf(EVENT_NAMES)
      .filter((kind) => eventKinds.has(kind))
      .map((kind) => ({ shape: 'mark' as const, kind, text: EVENT_NAMES[kind] })),
  ];
  let [x, y] = [0, 0];
  return wanted.map((entry): LegendEntry => {
    const needed = (entry.shape === 'span' ? 34 : 22) + textWidth(entry.text, SMALL) + 18;
    if (x > 0 && x + needed > width) [x, y] = [0, y + 24];
    const placed = { ...entry, x, y };
    x += needed;
    return placed;
  });
}

function tell(act: TimelineAct, time: (ms: number) => string): ActLayout['story'] {
  const moments = act.lanes.flatMap(({ label: lane, spans = [], events = [] }) => [
    ...events.map(({ atMs, label }) => ({ atMs, time: time(atMs), lane, label })),
    ...spans.map(({ fromMs, toMs, kind, label }) => {
      const what = [SPAN_NAMES[kind], label].filter(Boolean).join(' ');
      return { atMs: fromMs, time: time(fromMs), lane, label: `${what}, until ${time(toMs)} s` };
    }),
  ]);
  return moments.sort((a, b) => a.atMs - b.atMs);
}

function momentsOf(act: TimelineAct): number[] {
  const moments = [
    ...act.lanes.flatMap(({ spans = [] }) => spans.flatMap(({ fromMs, toMs }) => [fromMs, toMs])),
    ...act.lanes.flatMap(({ events = [] }) => events.map(({ atMs }) => atMs)),
    ...(act.arrows ?? []).flatMap(({ from, to }) => [from.atMs, to.atMs]),
  ];
  const broken = moments.find((ms) => !Number.isFinite(ms));
  if (broken !== undefined) throw new RangeError(`timeline: act "${act.title}" has the time ${broken}`);
  return moments.length === 0 ? [act.originMs ?? 0] : moments;
}

/** Whether two moments would read alike in hundredths of a second. */
function hasNeighbours(moments: readonly number[]): boolean {
  const times = [...new Set(moments.map((ms) => Math.round(ms)))].sort((a, b) => a - b);
  return times.some((time, i) => i > 0 && time - (times[i - 1] ?? time) < 10);
}

function targetsOf(act: TimelineAct, lane: string): ReadonlySet<number> {
  return new Set((act.arrows ?? []).filter(({ to }) => to.lane === lane).map(({ to }) => to.atMs));
}

/** Tokens get their colours in the order in which they appear. */
function tonesOf(act: TimelineAct): (token: string | undefined) => string {
  const seen = act.lanes.flatMap(({ spans = [], events = [] }) => [
    ...spans.map(({ token, fromMs }) => ({ token, atMs: fromMs })),
    ...events,
  ]);
  const inOrder = seen.toSorted((a, b) => a.atMs - b.atMs).map(({ token }) => token);
  const tokens = [...new Set(inOrder.filter((token) => token !== undefined))];
  return (token) => `tone-${token === undefined ? 0 : 1 + (tokens.indexOf(token) % TONES)}`;
}

function keysOf<K extends string>(record: Readonly<Record<K, unknown>>): K[] {
  return Object.keys(record) as K[];
}
