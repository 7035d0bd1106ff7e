import type { Room, Taken } from './labels.ts';
import {
  type EventLayout,
  type LaneContext,
  type LaneLayout,
  layOutLane,
  SMALL,
  type SpanLayout,
} from './lane.ts';
import type { TimelineArrow, TimelineLane, TimelinePanel } from './model.ts';
import { type TimeScale, tickTimes, timeScale } from './scale.ts';
import { SPAN_NAMES, TONES } from './style.ts';
import { textWidth } from './text-width.ts';

export interface PanelLayout {
  readonly x: number;
  readonly title: string;
  readonly titleY: number;
  readonly verdict: (NonNullable<TimelinePanel['verdict']> & { readonly x: number }) | undefined;
  readonly plot: {
    readonly left: number;
    readonly right: number;
    readonly top: number;
    readonly bottom: number;
  };
  readonly originMs: number;
  readonly ticks: readonly Tick[];
  readonly guides: readonly { readonly x: number; readonly y: number; readonly label: string }[];
  readonly lanes: readonly LaneLayout[];
  readonly spans: readonly SpanLayout[];
  readonly events: readonly EventLayout[];
  readonly arrows: readonly ArrowLayout[];
  /** Everything that happens, in order. */
  readonly story: readonly { readonly time: string; readonly lane: string; readonly label: string }[];
}

export interface ArrowLayout {
  readonly kind: NonNullable<TimelineArrow['kind']>;
  /** From mark to mark. */
  readonly from: Point;
  readonly to: Point;
  /** The same, from the edge of the one to that of the other. */
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
}

export interface Tick {
  readonly x: number;
  readonly label: string;
  /** 0 for those that stand from the first; finer ones are for who zooms in. */
  readonly rank: number;
}

interface Point {
  readonly x: number;
  readonly y: number;
}

export interface PanelFrame {
  readonly x: number;
  readonly top: number;
  /** Where the plot begins, to the right of the lanes' names. */
  readonly left: number;
  /** For a picture that can be zoomed: it grows with its moments, and need not show all labels at once. */
  readonly zooms?: boolean;
}

/** With more labels than this a picture that can be zoomed is crowded. */
const MANY_LABELS = 150;
/** How many times the ticks of a picture that can be zoomed get ten times as fine. */
const FINEST_TICKS = 3;
const MOST_TICKS = 600;
/** A moment's share of the width of a crowded picture; what the gaps leave of it goes to long stretches. */
const CROWDED_SHARE = 40;
const PLOT_WIDTH = 764;
/** After the last moment, for what lasts. */
const TAIL = 176;
/** Closer together than this, two moments could not be told apart, nor two marks of one lane. */
const GAPS = { gap: 17, laneGap: 32 };

export function layOutPanel(panel: TimelinePanel, { x, top, left, zooms = false }: PanelFrame): PanelLayout {
  const moments = momentsOf(panel);
  const all = moments.flat();
  const crowded = zooms && countLabels(panel) > MANY_LABELS;
  const plotWidth = crowded ? Math.max(PLOT_WIDTH, new Set(all).size * CROWDED_SHARE) : PLOT_WIDTH;
  const originMs = panel.originMs ?? Math.min(...all);
  const scale = timeScale(moments, { left: left + 16, width: plotWidth, ...GAPS });
  const right = Math.max(left + 16 + plotWidth, scale.x(Math.max(...all))) + TAIL;
  const decimals = hasNeighbours(all) ? 3 : 2;
  const time = (ms: number) => ((ms - originMs) / 1000).toFixed(decimals);
  const toneOf = tonesOf(panel);
  const titleY = top + 22;
  const guides = (panel.guides ?? []).map(({ atMs, label }) => ({ x: scale.x(atMs), y: titleY + 26, label }));

  const lanes = new Map<string, ReturnType<typeof layOutLane>>();
  let y = titleY + (guides.length > 0 ? 32 : 12);
  for (const lane of panel.lanes) {
    const surroundings = surroundingsOf(lane, panel, scale);
    const room = { x: left, end: right };
    const context: LaneContext = { scale, time, toneOf, room, crowded, ...surroundings };
    const laid = layOutLane(lane, y, context);
    lanes.set(lane.id, laid);
    y = laid.lane.bottom;
  }
  return {
    x,
    title: panel.title,
    titleY,
    verdict: panel.verdict && { ...panel.verdict, x: x + textWidth(panel.title, 14, 'bold') + 18 },
    plot: { left, right, top: titleY + 12, bottom: y },
    originMs,
    ticks: layOutTicks(all, originMs, scale, zooms ? FINEST_TICKS : 0),
    guides,
    lanes: [...lanes.values()].map(({ lane }) => lane),
    spans: [...lanes.values()].flatMap(({ spans }) => spans),
    events: [...lanes.values()].flatMap(({ events }) => events),
    arrows: (panel.arrows ?? []).map((arrow) => layOutArrow(arrow, lanes, scale)),
    story: tell(panel, time),
  };
}

/** How far to the right anything reaches. */
export function panelEnd({ plot, verdict, events, spans }: PanelLayout): number {
  return Math.max(
    plot.right,
    verdict === undefined ? 0 : verdict.x + 14 + textWidth(verdict.text, 13, 'bold'),
    ...events.map(({ label, width }) => label.x + (label.anchor === 'end' ? 0 : width)),
    ...spans.map(({ label }) => (label?.anchor === 'start' ? label.x + textWidth(label.text, SMALL) : 0)),
  );
}

/** The panel with its plot, and what lasts to its end, drawn out to `right`. */
export function widen(panel: PanelLayout, right: number): PanelLayout {
  return {
    ...panel,
    plot: { ...panel.plot, right },
    spans: panel.spans.map((span) => (span.isOpen ? { ...span, width: right - span.x } : span)),
  };
}

/** Where a lane's labels stand, and where they would be crossed. */
function surroundingsOf(lane: TimelineLane, panel: TimelinePanel, scale: TimeScale) {
  const indexOf = (id: string) => panel.lanes.findIndex((one) => one.id === id);
  const index = panel.lanes.indexOf(lane);
  const passages = (panel.arrows ?? []).map(({ from, to }) => {
    const ends = [from, to].map((end) => ({ lane: indexOf(end.lane), x: scale.x(end.atMs) }));
    const [upper, lower] = ends.toSorted((a, b) => a.lane - b.lane) as [End, End];
    return { upper, lower };
  });
  const upwards = passages.filter(({ lower }) => lower.lane === index);
  const side: LaneContext['side'] =
    upwards.length > 0 && passages.every(({ upper }) => upper.lane !== index) ? 'below' : 'above';
  const across = passages.filter(({ upper, lower }) => upper.lane < index && index < lower.lane);
  const around = (a: number, b: number): Room => ({ x: Math.min(a, b) - 6, end: Math.max(a, b) + 6 });
  const taken: Taken[] = [
    ...across.map(({ upper, lower }) => ({ ...around(upper.x, lower.x), cost: 100 })),
    // Near its end an arrow is near its mark: how near depends on heights that are not known yet.
    ...(side === 'below' ? [] : upwards).map(({ upper, lower }) => {
      return { ...around(lower.x, (upper.x + lower.x) / 2), at: lower.x, cost: 100 };
    }),
    ...(panel.guides ?? []).map(({ atMs }) => {
      const x = scale.x(atMs);
      return { x: x - 2, end: x + 2, at: x, cost: 8 };
    }),
  ];
  return { side, taken };
}

interface End {
  readonly lane: number;
  readonly x: number;
}

function layOutArrow(
  { from, to, kind = 'plain' }: TimelineArrow,
  lanes: ReadonlyMap<string, ReturnType<typeof layOutLane>>,
  scale: TimeScale,
): ArrowLayout {
  const end = ({ lane, atMs }: TimelineArrow['from']) => {
    const laid = lanes.get(lane);
    if (laid === undefined)
      throw new RangeError(`timeline: an arrow names the lane "${lane}", which is not there`);
    const x = scale.x(atMs);
    return { x, y: laid.events.find((event) => event.x === x)?.y ?? laid.lane.middle };
  };
  const [a, b] = [end(from), end(to)];
  // It starts and ends at the edge of the marks, not in them.
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const [dx, dy] = [((b.x - a.x) / length) * 9, ((b.y - a.y) / length) * 9];
  return { kind, from: a, to: b, x1: a.x + dx, y1: a.y + dy, x2: b.x - dx, y2: b.y - dy };
}

function layOutTicks(moments: readonly number[], originMs: number, scale: TimeScale, finest: number): Tick[] {
  const [first, last] = [Math.min(...moments) - originMs, Math.max(...moments) - originMs];
  const { times, stepMs } = tickTimes(first, last);
  const coarse = new Set(times);
  let lastLabelled = Number.NEGATIVE_INFINITY;
  const ticks = times.map((ms): Tick => {
    const x = scale.x(ms + originMs);
    const fits = x - lastLabelled >= 40;
    if (fits) lastLabelled = x;
    return { x, label: fits || finest > 0 ? seconds(ms, stepMs) : '', rank: 0 };
  });
  for (let rank = 1; rank <= finest; rank += 1) {
    const step = stepMs / 10 ** rank;
    const from = Math.ceil(first / step);
    const count = Math.floor(last / step) - from + 1;
    if (step < 1 || count > MOST_TICKS) break;
    for (let i = 0; i < count; i += 1) {
      const ms = (from + i) * step;
      // A finer step meets each moment of the coarser ones again.
      if (coarse.has(ms)) continue;
      coarse.add(ms);
      ticks.push({ x: scale.x(ms + originMs), label: `${Number((ms / 1000).toFixed(3))} s`, rank });
    }
  }
  return ticks;
}

function seconds(ms: number, stepMs: number): string {
  const decimals = Math.max(0, -Math.floor(Math.log10(stepMs / 1000)));
  return `${(ms / 1000).toFixed(decimals)} s`;
}

function tell(panel: TimelinePanel, time: (ms: number) => string): PanelLayout['story'] {
  const moments = panel.lanes.flatMap(({ label: lane, spans = [], events = [] }) => [
    ...events.map(({ atMs, label }) => ({ atMs, time: time(atMs), lane, label })),
    ...spans.map(({ fromMs, toMs, kind, label }) => {
      const what = [SPAN_NAMES[kind], label].filter(Boolean).join(': ');
      const until = toMs === undefined ? 'to the end' : `until ${time(toMs)} s`;
      return { atMs: fromMs, time: time(fromMs), lane, label: `${what}, ${until}` };
    }),
  ]);
  return moments.sort((a, b) => a.atMs - b.atMs);
}

/** By lane, and then those that belong to none. */
function momentsOf({ title, lanes, arrows = [], guides = [], originMs }: TimelinePanel): number[][] {
  const moments = [
    ...lanes.map(({ events = [] }) => events.map(({ atMs }) => atMs)),
    ...lanes.map(({ spans = [] }) => spans.flatMap(({ fromMs, toMs = fromMs }) => [fromMs, toMs])),
    ...arrows.map(({ from, to }) => [from.atMs, to.atMs]),
    [...guides.map(({ atMs }) => atMs), ...(originMs === undefined ? [] : [originMs])],
  ];
  const broken = moments.flat().find((ms) => !Number.isFinite(ms));
  if (broken !== undefined) throw new RangeError(`timeline: panel "${title}" has the time ${broken}`);
  return moments.some((some) => some.length > 0) ? moments : [[0]];
}

function countLabels({ lanes }: TimelinePanel): number {
  return lanes.reduce((sum, { spans = [], events = [] }) => sum + spans.length + events.length, 0);
}

/** Whether two moments would read alike in hundredths of a second. */
function hasNeighbours(moments: readonly number[]): boolean {
  const times = [...new Set(moments)].sort((a, b) => a - b);
  return times.some((time, i) => i > 0 && time - (times[i - 1] ?? time) < 10);
}

/** Tokens get their colours in the order in which they appear. */
function tonesOf(panel: TimelinePanel): (token: string | undefined) => string {
  const seen = panel.lanes.flatMap(({ spans = [], events = [] }) => [
    ...spans.map(({ token, fromMs }) => ({ token, atMs: fromMs })),
    ...events,
  ]);
  const inOrder = seen.toSorted((a, b) => a.atMs - b.atMs).map(({ token }) => token);
  const tokens = new Set(inOrder.filter((token) => token !== undefined));
  const tones = new Map([...tokens].map((token, i) => [token, 1 + (i % TONES)]));
  return (token) => `tone-${token === undefined ? 0 : tones.get(token)}`;
}
