// One run as a picture: lanes for the coordinator's lease, A, the storage and B.

import { OPENING } from './account.ts';
import type { PlayedRun } from './acts.ts';
import type { StoryEvent, WorkerName } from './story.ts';
import { box, dot, line, text } from './svg.ts';
import { revisionOf, seconds } from './telling.ts';
import { answerStyle, labelOf, markStyle } from './timeline-labels.ts';
import { type Placed, placed } from './timeline-scale.ts';
import type { Names } from './world.ts';

export const PANEL_HEIGHT = 352;
const HEADER = 28;
const BAR = 18;

/** The top of each lane's bar. Labels stand above it, B's below. */
const LANES = { coordinator: 66, A: 136, storage: 222, B: 286 } as const;

export interface Frame {
  readonly left: number;
  readonly right: number;
  readonly names: Names;
}

export function drawPanel(run: PlayedRun, top: number, frame: Frame): string {
  return new Panel(run, top, frame).draw();
}

class Panel {
  readonly #run: PlayedRun;
  readonly #top: number;
  readonly #frame: Frame;
  readonly #placed: readonly Placed[];

  constructor(run: PlayedRun, top: number, frame: Frame) {
    this.#run = run;
    this.#top = top;
    this.#frame = frame;
    this.#placed = placed(run.events, frame.left + 30, frame.right - 124);
  }

  draw(): string {
    return [
      this.#header(),
      ...this.#laneNames(),
      this.#handOver(),
      ...this.#leases(),
      ...this.#holds('A'),
      ...this.#holds('B'),
      ...this.#hindrance(),
      ...this.#balance(),
      ...this.#promises(),
      ...this.#writes(),
      ...this.#marks(),
    ].join('\n');
  }

  #y(lane: keyof typeof LANES): number {
    return this.#top + LANES[lane];
  }

  #find(matches: (event: StoryEvent) => boolean): Placed | undefined {
    return this.#placed.find(({ event }) => matches(event));
  }

  /** The first matching event after `place`. */
  #after(place: Placed, matches: (event: StoryEvent) => boolean): Placed | undefined {
    return this.#placed.slice(this.#placed.indexOf(place) + 1).find(({ event }) => matches(event));
  }

  #header(): string {
    const { guarded, acknowledged, expectedBalance, foundBalance, lostUpdates, rejected } = this.#run;
    const balance = `${acknowledged} entries acknowledged, balance expected ${expectedBalance}, found ${foundBalance}`;
    const result = `${balance}: ${lostUpdates} lost, ${rejected} rejected`;
    const y = this.#top + 16;
    return [
      text(this.#frame.left - 112, y, guarded ? 'With the guard' : 'Without a guard', 'run'),
      text(this.#frame.right, y, result, lostUpdates === 0 ? 'right good' : 'right bad'),
    ].join('\n');
  }

  #laneNames(): string[] {
    const { names, left, right } = this.#frame;
    const title = { coordinator: `${names.coordinator}: lease`, A: 'A', storage: names.storage, B: 'B' };
    return (['coordinator', 'A', 'storage', 'B'] as const).flatMap((lane) => {
      const middle = this.#y(lane) + BAR / 2;
      return [
        text(left - 112, middle + 4, title[lane], 'lane'),
        line(
          [
            [left, middle],
            [right, middle],
          ],
          'base',
        ),
      ];
    });
  }

  #handOver(): string {
    const removed = this.#find((event) => event.kind === 'removed');
    if (removed === undefined) return '';
    const { x } = removed;
    const bottom = this.#y('B') + BAR + 26;
    return [
      line(
        [
          [x, this.#top + HEADER + 14],
          [x, bottom],
        ],
        'hand-over',
      ),
      text(x - 6, bottom, 'hand-over', 'end label'),
    ].join('\n');
  }

  /** Whose lease holds the lock, and who queues, as the watch reported it. */
  #leases(): string[] {
    const y = this.#y('coordinator');
    return this.#placed.flatMap((place) => {
      const { event, x } = place;
      if (event.kind !== 'enqueued') return [];
      const free = event.behind === undefined ? place : this.#after(place, (one) => one.kind === 'removed');
      const end = this.#after(place, (one) => one.kind === 'removed' && one.revision === event.revision);
      const from = free?.x ?? x;
      const to = end?.x ?? this.#frame.right;
      return [
        ...(from > x ? [box(x, from, y + BAR - 4, 8, `queue ${event.of}`)] : []),
        box(from, to, y, BAR, `bar ${event.of}`),
        text(from + 9, y + 13, `${event.of}, token ${event.revision}`, 'in-bar'),
      ];
    });
  }

  /** From the grant until it is known to be over: what the worker believes. */
  #holds(who: WorkerName): string[] {
    const y = this.#y(who);
    return this.#placed.flatMap((place) => {
      const { event, x } = place;
      if (event.kind !== 'acquired' || event.who !== who) return [];
      const revision = revisionOf(event.token);
      const end = this.#after(
        place,
        (one) =>
          (one.kind === 'lost' && one.token === event.token) ||
          (one.kind === 'applied' && one.token === event.token && !this.#lateToken(event.token)),
      );
      return [
        box(x, end?.x ?? this.#frame.right, y, BAR, `bar ${who}`),
        text(x + 9, y + 13, revision, 'in-bar'),
      ];
    });
  }

  #lateToken(token: string): boolean {
    return this.#placed.some(({ event }) => event.kind === 'lost' && event.token === token);
  }

  #hindrance(): string[] {
    const from = this.#find(({ kind }) => kind === 'stopped' || kind === 'stalled');
    const to = this.#find(({ kind }) => kind === 'woken' || kind === 'restored');
    if (from === undefined || to === undefined) return [];
    const y = this.#y('A');
    const lasted = seconds(to.event.atMs - from.event.atMs, 1);
    const middle = (from.x + to.x) / 2;
    if (from.event.kind === 'stopped') {
      return [
        box(from.x, to.x, y, BAR, 'stopped'),
        text(middle, y + 13, `stopped for ${lasted} s`, 'middle in-bar'),
      ];
    }
    const times = `${seconds(from.event.atMs, 3)} to ${seconds(to.event.atMs, 3)}`;
    return [
      box(from.x, to.x, y + BAR + 6, 14, 'stopped'),
      text(middle, y + BAR + 17, `A's network is stalled for ${lasted} s, ${times}`, 'middle time'),
    ];
  }

  #balance(): string[] {
    const y = this.#y('storage');
    const changes = this.#placed.filter(({ event }) => event.kind === 'applied');
    const start = { x: this.#frame.left, balance: OPENING.balance, style: 'balance' };
    const steps = [start];
    for (const { event, x } of changes) {
      if (event.kind !== 'applied') continue;
      const late = answerStyle(event, this.#run.events) === 'late';
      steps.push({ x, balance: event.balance, style: late ? 'balance wrong' : 'balance' });
    }
    return steps.flatMap(({ x, balance, style }, index) => {
      const to = steps[index + 1]?.x ?? this.#frame.right;
      return [box(x, to, y, BAR, style), text(x + 6, y + 13, `${balance}`, 'in-bar strong')];
    });
  }

  /** Which tokens the guard still accepts. */
  #promises(): string[] {
    const y = this.#y('storage') + BAR + 13;
    return this.#placed.flatMap(({ event, x }) =>
      event.kind === 'acquired' && event.claimed
        ? [
            line(
              [
                [x, this.#y('storage') + BAR],
                [x, y],
              ],
              'promise',
            ),
            text(x + 4, y, `guard: ${revisionOf(event.token)} or newer`, 'time'),
          ]
        : [],
    );
  }

  /** From the worker that sent it to the storage that answered; by way of the network where it was held. */
  #writes(): string[] {
    return this.#placed.flatMap((place) => {
      const { event, x } = place;
      if (event.kind !== 'sent') return [];
      const answer = this.#after(
        place,
        (one) => (one.kind === 'applied' || one.kind === 'refused') && one.token === event.token,
      );
      if (answer === undefined) return [];
      const down = event.who === 'A';
      const start = down ? this.#y('A') + BAR : this.#y('B');
      const end = down ? this.#y('storage') - 2 : this.#y('storage') + BAR + 2;
      const held = down ? this.#after(place, (one) => one.kind === 'held') : undefined;
      const restored = held && this.#after(held, (one) => one.kind === 'restored');
      const between = start + (end - start) * 0.68;
      const way: [number, number][] =
        restored === undefined
          ? []
          : [
              [x, between],
              [restored.x, between],
            ];
      const style = answerStyle(answer.event, this.#run.events);
      return [
        line([[x, start], ...way, [answer.x, end]], `write ${style}`, { 'marker-end': `url(#${style})` }),
        ...(restored === undefined
          ? []
          : [text((x + restored.x) / 2, between - 4, 'the write is on its way', 'middle time')]),
      ];
    });
  }

  #marks(): string[] {
    return this.#placed.flatMap(({ event, x }) => {
      const label = labelOf(event, this.#run.events);
      if (event.who === 'network' || label === undefined) return [];
      const y = this.#y(event.who);
      const style = markStyle(event, this.#run.events);
      const below = event.who === 'B' || (event.kind === 'applied' && event.of === 'B');
      const first = below ? y + BAR + 13 : y - 16;
      // Beside the arrow that ends there.
      const left = event.who === 'storage' ? x + 5 : x;
      return [
        dot(x, y + BAR / 2, `dot ${style}`),
        text(left, first, label, style),
        text(left, first + 11, seconds(event.atMs, 3), 'time'),
      ];
    });
  }
}
