import { type EventLabel, freeRoom, type Room, stackBelow, stackLabels } from './timeline-labels.ts';
import type { TimelineEvent, TimelineLane, TimelineSpan } from './timeline-model.ts';
import type { TimeScale } from './timeline-scale.ts';
import { textWidth } from './timeline-text.ts';

export interface LaneLayout {
  readonly top: number;
  readonly middle: number;
  readonly bottom: number;
  readonly labelY: number;
  readonly label: string;
  readonly note: string | undefined;
}

export interface SpanLayout {
  readonly kind: TimelineSpan['kind'];
  readonly tone: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly label:
    | { readonly className: string; readonly x: number; readonly y: number; readonly text: string }
    | undefined;
}

export interface EventLayout {
  readonly kind: TimelineEvent['kind'];
  readonly tone: string;
  readonly x: number;
  readonly middle: number;
  readonly labelX: number;
  readonly labelY: number;
  readonly label: string;
  readonly time: string;
}

/** What a lane shares with the others of its act. */
export interface LaneContext {
  readonly scale: TimeScale;
  /** A moment as it is written. */
  readonly time: (ms: number) => string;
  /** The class that gives a token its colour. */
  readonly toneOf: (token: string | undefined) => string;
  /** The moments at which an arrow arrives on this lane. */
  readonly targets: ReadonlySet<number>;
}

interface PlacedSpan extends Room {
  readonly span: TimelineSpan;
}

const BAR = 26;
const ROW = 17;
const SMALL_ROW = 16;
const LABEL_SIZE = 13;
export const SMALL = 12;
/** Those further down are drawn over those further up. */
const STACK: readonly TimelineSpan['kind'][] = ['wait', 'lease', 'claim', 'hold', 'held-back', 'paused'];

/**
 * One lane: rows of labels, the bar with spans and marks, and below it the span labels that found no room
 * inside. It is as high as its labels need.
 */
export function layOutLane(lane: TimelineLane, top: number, context: LaneContext) {
  const events = (lane.events ?? []).toSorted((a, b) => a.atMs - b.atMs);
  const labels = events.map((event) => placeLabel(event, context));
  const rows = stackLabels(labels);
  const barTop = top + 12 + (Math.max(-1, ...rows) + 1) * ROW + (rows.length > 0 ? 5 : 0);
  const middle = barTop + BAR / 2;
  const { spans, rowsBelow } = layOutSpans(lane.spans ?? [], labels, barTop, context);
  return {
    lane: {
      top,
      middle,
      bottom: barTop + BAR + rowsBelow * SMALL_ROW + 13,
      labelY: lane.note === undefined ? middle + 5 : middle - 2,
      label: lane.label,
      note: lane.note,
    },
    spans,
    events: events.map(
      ({ kind, label, token, atMs }, i): EventLayout => ({
        kind,
        tone: context.toneOf(token),
        x: labels[i]?.x ?? 0,
        middle,
        labelX: labels[i]?.start ?? 0,
        labelY: barTop - 6 - (rows[i] ?? 0) * ROW,
        label,
        time: context.time(atMs),
      }),
    ),
  };
}

export function labelWidth({ label, time }: { readonly label: string; readonly time: string }): number {
  return textWidth(`${label} `, LABEL_SIZE) + textWidth(time, SMALL);
}

function placeLabel(event: TimelineEvent, { scale, time, targets }: LaneContext): EventLabel {
  const x = scale.x(event.atMs);
  // An arrow comes down on the mark from above and from before: its label makes room.
  const start = x + (targets.has(event.atMs) ? 9 : -4);
  return { x, start, end: start + labelWidth({ label: event.label, time: time(event.atMs) }) };
}

function layOutSpans(
  spans: readonly TimelineSpan[],
  labels: readonly EventLabel[],
  barTop: number,
  { scale, toneOf }: LaneContext,
): { readonly spans: SpanLayout[]; readonly rowsBelow: number } {
  const placed: PlacedSpan[] = STACK.flatMap((kind) => spans.filter((span) => span.kind === kind)).map(
    (span) => {
      const x = scale.x(span.fromMs);
      return { span, x, end: Math.max(scale.x(span.toMs), x + 3) };
    },
  );
  const marks = labels.map(({ x }) => ({ x: x - 9, end: x + 9 }));
  const rooms = placed.map((one, i) => roomInside(one, [...marks, ...placed.slice(i + 1)]));
  const outside = placed.filter(({ span }, i) => span.label !== undefined && rooms[i] === undefined);
  const rows = stackBelow(outside.map(({ span, x }) => ({ x, end: x + textWidth(span.label ?? '', SMALL) })));
  const laid = placed.map((one, i): SpanLayout => {
    const { span, x, end } = one;
    const tone = toneOf(span.token);
    const box = { kind: span.kind, tone, x, y: barTop, width: end - x, height: BAR };
    const text = span.label;
    if (text === undefined) return { ...box, label: undefined };
    const room = rooms[i];
    if (room === undefined) {
      const row = rows[outside.indexOf(one)] ?? 0;
      return { ...box, label: { className: 'below', x, y: barTop + BAR + 14 + row * SMALL_ROW, text } };
    }
    const className = `in-span ${groundOf(span.kind)} ${tone}`;
    return { ...box, label: { className, x: (room.x + room.end) / 2, y: barTop + BAR / 2 + 4, text } };
  });
  return { spans: laid, rowsBelow: Math.max(-1, ...rows) + 1 };
}

/** Where a span's label fits between marks and the spans drawn over it; `undefined`: nowhere. */
function roomInside({ span, x, end }: PlacedSpan, taken: readonly Room[]): Room | undefined {
  const room = freeRoom({ x, end }, taken);
  return room.end - room.x >= textWidth(span.label ?? '', SMALL) + 10 ? room : undefined;
}

function groundOf(kind: TimelineSpan['kind']): string {
  if (kind === 'hold') return 'on-strong';
  if (kind === 'wait') return '';
  return kind === 'paused' || kind === 'held-back' ? 'on-stopped' : 'on-tint';
}
