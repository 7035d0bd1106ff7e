import {
  type EventLabel,
  freeRoom,
  type PlacedLabel,
  placeLabels,
  type Room,
  stackBelow,
  type Taken,
} from './labels.ts';
import type { TimelineEvent, TimelineLane, TimelineSpan } from './model.ts';
import type { TimeScale } from './scale.ts';
import { WEIGHTS } from './style.ts';
import { textWidth } from './text-width.ts';

export interface LaneLayout {
  readonly id: string;
  readonly top: number;
  readonly middle: number;
  readonly bottom: number;
  readonly labelY: number;
  readonly label: string;
  readonly note: string | undefined;
}

export interface TextLayout {
  readonly x: number;
  readonly y: number;
  readonly anchor: 'start' | 'middle' | 'end';
  readonly text: string;
}

export interface SpanLayout {
  readonly kind: TimelineSpan['kind'];
  readonly tone: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** Whether it goes on to the end of the panel. */
  readonly isOpen: boolean;
  /** `room`: where it may stand, inside the span; `undefined` for one that stands below. */
  readonly label: (TextLayout & { readonly className: string; readonly room?: Room }) | undefined;
  readonly source: TimelineSpan;
  readonly lane: TimelineLane;
}

export interface EventLayout {
  readonly kind: TimelineEvent['kind'];
  readonly tone: string;
  readonly x: number;
  readonly y: number;
  /** Between the mark and the label, down from one height to another. */
  readonly leader: { readonly from: number; readonly to: number };
  readonly label: TextLayout;
  readonly time: string;
  /** Of label and time. */
  readonly width: number;
  readonly source: TimelineEvent;
  readonly lane: TimelineLane;
}

/** What a lane shares with the others of its panel. */
export interface LaneContext {
  readonly scale: TimeScale;
  /** A moment as it is written. */
  readonly time: (ms: number) => string;
  /** The class that gives a token its colour. */
  readonly toneOf: (token: string | undefined) => string;
  /** Where the panel's moments may be labelled. */
  readonly room: Room;
  /** Where the labels stand, seen from the bar: where fewer arrows come. */
  readonly side: 'above' | 'below';
  /** Where something passes on that side. */
  readonly taken: readonly Taken[];
  /** There are too many labels for all to be shown at once: each gets a place, and it is chosen later who shows. */
  readonly crowded: boolean;
}

interface PlacedSpan extends Room {
  readonly span: TimelineSpan;
}

const BAR = 26;
const STRIP = 18;
const ROW = 17;
const SMALL_ROW = 16;
const LABEL_SIZE = 13;
export const SMALL = 12;
/** Those further down are drawn over those further up. */
const STACK: readonly TimelineSpan['kind'][] = [
  ...([
    'state',
    'wrong-state',
    'wait',
    'lease',
    'claim',
    'hold',
    'fault',
    'unknown',
    'held-back',
    'paused',
  ] as const),
];

/**
 * One lane: rows of labels, a guard's strip if there is one, and the bar with spans and marks; or the labels
 * below. At the foot are the span labels that found no room inside. It is as high as its labels need.
 */
export function layOutLane(lane: TimelineLane, top: number, context: LaneContext) {
  const spans = lane.spans ?? [];
  const events = (lane.events ?? []).toSorted((a, b) => a.atMs - b.atMs);
  const wishes = events.map((event) => wishOf(event, context));
  const labels = context.crowded ? scatter(wishes) : placeLabels(wishes, context.room, context.taken);
  const strip = spans.some(({ kind }) => kind === 'claim') ? STRIP : 0;
  const labelRows = labels.reduce((rows, { row }) => Math.max(rows, row + 1), 0) * ROW;
  const stripTop = top + 14 + (context.side === 'above' ? labelRows : 0);
  const barTop = stripTop + strip;
  const footTop = barTop + BAR + (context.side === 'below' ? labelRows : 0);
  const middle = barTop + BAR / 2;
  const marks = events.map(({ kind, atMs }) => {
    // What a guard refuses gets no further than the guard.
    return {
      x: context.scale.x(atMs),
      y: kind === 'write-refused' && strip > 0 ? stripTop + STRIP / 2 : middle,
    };
  });
  const laid = layOutSpans(lane, marks, { stripTop, barTop, footTop }, context);
  return {
    lane: {
      id: lane.id,
      top,
      middle,
      bottom: footTop + laid.rowsBelow * SMALL_ROW + 12,
      labelY: lane.note === undefined ? middle + 5 : middle - 2,
      label: lane.label,
      note: lane.note,
    },
    spans: laid.spans,
    events: events.map((event, i): EventLayout => {
      const { kind, label, token, atMs } = event;
      const { x = 0, end = 0, side = 'right', row = 0 } = labels[i] ?? {};
      const [anchor, textX] = side === 'left' ? (['end', end] as const) : (['start', x] as const);
      const y = context.side === 'above' ? stripTop - 6 - row * ROW : barTop + BAR + 15 + row * ROW;
      const [leaderFrom, leaderTo] = context.side === 'above' ? [y + 4, middle - 8] : [barTop + BAR, y - 11];
      return {
        kind,
        tone: context.toneOf(token),
        x: marks[i]?.x ?? 0,
        y: marks[i]?.y ?? 0,
        leader: { from: leaderFrom, to: Math.max(leaderFrom, leaderTo) },
        label: { x: textX, y, anchor, text: label },
        time: context.time(atMs),
        width: wishes[i]?.width ?? 0,
        source: event,
        lane,
      };
    }),
  };
}

/** Beside what passes at the mark its label makes room. */
function wishOf({ kind, label, atMs }: TimelineEvent, { scale, time, taken }: LaneContext): EventLabel {
  const x = scale.x(atMs);
  const width = textWidth(`${label} `, LABEL_SIZE, WEIGHTS[kind]) + textWidth(time(atMs), SMALL);
  const passing = taken.filter(({ at }) => at === x);
  return {
    x,
    width,
    rightFrom: Math.max(-4, ...passing.map(({ end }) => end + 3 - x)),
    leftUntil: Math.min(4, ...passing.map((room) => room.x - 3 - x)),
  };
}

function layOutSpans(
  lane: TimelineLane,
  marks: readonly { readonly x: number; readonly y: number }[],
  { stripTop, barTop, footTop }: Readonly<Record<'stripTop' | 'barTop' | 'footTop', number>>,
  { scale, toneOf, room: panel, crowded }: LaneContext,
): { readonly spans: SpanLayout[]; readonly rowsBelow: number } {
  const spans = lane.spans ?? [];
  const placed: PlacedSpan[] = STACK.flatMap((kind) => spans.filter((span) => span.kind === kind)).map(
    (span) => {
      const x = scale.x(span.fromMs);
      return { span, x, end: Math.max(span.toMs === undefined ? panel.end : scale.x(span.toMs), x + 3) };
    },
  );
  const rooms = placed.map((one, i) => {
    const isStrip = one.span.kind === 'claim';
    const covering = placed.slice(i + 1).filter(({ span }) => (span.kind === 'claim') === isStrip);
    // What reaches a mark in the bar comes through the strip.
    const inIt = isStrip ? marks : marks.filter(({ y }) => y > barTop);
    return freeRoom(one, [...inIt.map(({ x }) => ({ x: x - 9, end: x + 9 })), ...covering]);
  });
  const isInside = ({ span }: PlacedSpan, i: number) => crowded || fits(span, rooms[i]);
  const outside = placed.filter((one, i) => one.span.label !== undefined && !isInside(one, i));
  const rows = stackBelow(outside.map(({ span, x }) => ({ x, end: x + textWidth(span.label ?? '', SMALL) })));
  const laid = placed.map((one, i): SpanLayout => {
    const { span, x, end } = one;
    const { kind, label: text } = span;
    const tone = toneOf(span.token);
    const [y, height] = kind === 'claim' ? [stripTop, STRIP] : [barTop, BAR];
    const isOpen = span.toMs === undefined;
    const box = { kind, tone, x, y, width: end - x, height, isOpen, source: span, lane };
    if (text === undefined) return { ...box, label: undefined };
    const room = rooms[i];
    if (room === undefined || !isInside(one, i)) {
      const row = rows[outside.indexOf(one)] ?? 0;
      const below = { x, y: footTop + 14 + row * SMALL_ROW, anchor: 'start' as const };
      return { ...box, label: { ...below, className: 'below', text } };
    }
    const inside = { x: (room.x + room.end) / 2, y: y + height / 2 + 4, anchor: 'middle' as const };
    return { ...box, label: { ...inside, className: `in-span ${groundOf(kind)} ${tone}`, text, room } };
  });
  return { spans: laid, rowsBelow: Math.max(-1, ...rows) + 1 };
}

/** Whether a span's label fits between marks and the spans drawn over it. */
function fits({ label = '' }: TimelineSpan, room: Room | undefined): boolean {
  return room !== undefined && room.end - room.x >= textWidth(label, SMALL, 'bold') + 8;
}

const SCATTER_ROWS = 3;

/** In turn on one of a few rows, from the highest down, each to the right of its mark: leaders go past the text before. */
function scatter(labels: readonly EventLabel[]): PlacedLabel[] {
  return labels.map(({ x, width, rightFrom }, i) => ({
    at: x,
    x: x + rightFrom,
    end: x + rightFrom + width,
    side: 'right',
    row: SCATTER_ROWS - 1 - (i % SCATTER_ROWS),
  }));
}

function groundOf(kind: TimelineSpan['kind']): string {
  switch (kind) {
    case 'hold':
      return 'on-strong';
    case 'lease':
    case 'claim':
      return 'on-tint';
    case 'paused':
    case 'held-back':
    case 'fault':
      return 'on-stopped';
    case 'wrong-state':
      return 'on-wrong';
    case 'state':
    case 'wait':
    case 'unknown':
      return '';
  }
}
