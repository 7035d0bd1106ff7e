import { describe, expect, it } from 'vitest';
import { sampleTimeline } from '../fixtures/sample-timeline.ts';
import { layOut, type TimelineLayout } from './layout.ts';
import type { Timeline, TimelineEvent, TimelinePanel, TimelineSpan } from './model.ts';
import type { PanelLayout } from './panel.ts';
import { renderTimeline } from './render-svg.ts';
import { timeScale } from './scale.ts';
import { textWidth } from './text-width.ts';

interface Box {
  readonly what: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

function panelsOf({ acts }: TimelineLayout): PanelLayout[] {
  return acts.flatMap(({ panels }) => panels);
}

/** Every text of the panels, with the space that it takes. */
function textBoxes(layout: TimelineLayout): Box[] {
  const box = (what: string, x: number, y: number, width: number, size: number, anchor = 'start'): Box => {
    const before = { start: 0, middle: width / 2, end: width }[anchor] ?? 0;
    return { what, x: x - before, y: y - 0.75 * size, width, height: size };
  };
  return panelsOf(layout).flatMap((panel) => [
    ...panel.events.map(({ label, width }) => box(label.text, label.x, label.y, width, 13, label.anchor)),
    ...panel.spans.flatMap(({ label }) => {
      if (label === undefined) return [];
      const weight = label.anchor === 'middle' ? 'bold' : 'regular';
      return [box(label.text, label.x, label.y, textWidth(label.text, 12, weight), 12, label.anchor)];
    }),
    ...panel.lanes.flatMap(({ label, note, labelY }) => [
      box(label, panel.x, labelY, textWidth(label, 14, 'bold'), 13),
      ...(note === undefined ? [] : [box(note, panel.x, labelY + 15, textWidth(note, 12), 12)]),
    ]),
    box(panel.title, panel.x, panel.titleY, textWidth(panel.title, 14, 'bold'), 14),
    ...(panel.verdict === undefined
      ? []
      : [
          box(
            panel.verdict.text,
            panel.verdict.x - 7,
            panel.titleY,
            textWidth(panel.verdict.text, 13, 'bold'),
            13,
          ),
        ]),
    ...panel.guides.map(({ x, y, label }) => box(label, x, y, textWidth(label, 12), 12, 'middle')),
  ]);
}

/** What must stay free of text: marks, and the leaders between them and their labels. */
function strokeBoxes(layout: TimelineLayout): Box[] {
  return panelsOf(layout).flatMap(({ events }) =>
    events.flatMap(({ label, x, y, leader: { from, to } }) => [
      { what: `mark of ${label.text}`, x: x - 6, y: y - 6, width: 12, height: 12 },
      { what: `leader of ${label.text}`, x, y: from, width: 0, height: to - from },
    ]),
  );
}

/** Arrows in slices, each as wide as the arrow is there. */
function arrowBoxes(layout: TimelineLayout): Box[] {
  return panelsOf(layout).flatMap(({ arrows }) =>
    arrows.flatMap(({ x1, y1, x2, y2 }) =>
      Array.from({ length: 20 }, (_, i) => {
        const [from, to] = [x1 + ((x2 - x1) * i) / 20, x1 + ((x2 - x1) * (i + 1)) / 20];
        const y = y1 + ((y2 - y1) * i) / 20;
        return {
          what: 'arrow',
          x: Math.min(from, to),
          y,
          width: Math.abs(to - from),
          height: (y2 - y1) / 20,
        };
      }),
    ),
  );
}

function overlaps(a: readonly Box[], b: readonly Box[]): string[] {
  return a.flatMap((one) =>
    b
      .filter((other) => one !== other)
      .filter(
        (other) =>
          one.x < other.x + other.width &&
          other.x < one.x + one.width &&
          one.y < other.y + other.height &&
          other.y < one.y + one.height,
      )
      .map((other) => `"${one.what}" over "${other.what}"`),
  );
}

function expectReadable(timeline: Timeline): void {
  const layout = layOut(timeline);
  const texts = textBoxes(layout);
  expect(overlaps(texts, texts)).toEqual([]);
  expect(overlaps(texts, strokeBoxes(layout))).toEqual([]);
  for (const { x, y, width, height } of texts) {
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(layout.width);
    expect(y + height).toBeLessThanOrEqual(layout.height);
  }
}

describe('a timeline', () => {
  it('of a real story has no two texts in one place, nor a text under an arrow', () => {
    expectReadable(sampleTimeline);
    const layout = layOut(sampleTimeline);
    expect(arrowBoxes(layout)).toHaveLength(20 * 10);
    expect(overlaps(textBoxes(layout), arrowBoxes(layout))).toEqual([]);
  });

  it('of a real story finds room for every label of a span inside it', () => {
    const labels = panelsOf(layOut(sampleTimeline)).flatMap(({ spans }) => spans.map(({ label }) => label));
    expect(labels.filter((label) => label?.className === 'below')).toEqual([]);
  });

  it('draws what lasts to the end of its panel, and a refusal at the guard', () => {
    const panel = panelsOf(layOut(sampleTimeline))[1];
    const claims = panel?.spans.filter(({ kind }) => kind === 'claim') ?? [];
    const [last] = claims.slice(-1);
    expect((last?.x ?? 0) + (last?.width ?? 0)).toBe(panel?.plot.right);
    const refusal = panel?.events.find(({ kind }) => kind === 'write-refused');
    expect(refusal?.y).toBe((last?.y ?? 0) + (last?.height ?? 0) / 2);
    expect(panel?.arrows.find(({ kind }) => kind === 'refused')?.y2).toBeLessThan(refusal?.y ?? 0);
  });

  it.each(Array.from({ length: 40 }, (_, seed) => seed + 1))('made at random (%i) has neither', (seed) => {
    expectReadable(randomTimeline(seed));
  });

  it('is one well-formed document without anything from outside', () => {
    const svg = renderTimeline(sampleTimeline);
    expect(openTags(svg)).toEqual([]);
    expect(svg).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 [\d.]+ [\d.]+"/);
    expect(svg.replace('http://www.w3.org/2000/svg', '')).not.toMatch(
      /https?:|<script|<image|@import|\bNaN\b|undefined/,
    );
    expect(svg).toContain('@media screen and (prefers-color-scheme:dark)');
    expect(renderTimeline(structuredClone(sampleTimeline))).toBe(svg);
  });

  it('tells its story in words, in order, act by act', () => {
    const desc = /<desc[^>]*>([^<]*)<\/desc>/.exec(renderTimeline(sampleTimeline))?.[1] ?? '';
    const parts = [
      'A is paused.',
      'Without a guard.',
      'acquires token 5',
      'lease expires',
      'acquires token 9',
      'B’s 50 are gone',
      'With the guard.',
      'refused: stale-token',
      'A’s write is under way.',
    ];
    const places = parts.map((part) => desc.indexOf(part));
    expect(Math.min(...places)).toBeGreaterThanOrEqual(0);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  });

  it('escapes whatever text it is given', () => {
    const nasty = `<b>&"'\u0007]]>\ud800`;
    const svg = renderTimeline({
      title: nasty,
      subtitle: nasty,
      acts: [
        {
          title: nasty,
          panels: [
            {
              title: nasty,
              verdict: { good: false, text: nasty },
              guides: [{ atMs: 0, label: nasty }],
              lanes: [
                {
                  id: nasty,
                  label: nasty,
                  note: nasty,
                  spans: [{ kind: 'hold', fromMs: 0, toMs: 1, label: nasty, token: nasty }],
                  events: [{ kind: 'read', atMs: 0, label: nasty }],
                },
              ],
            },
          ],
        },
      ],
    });
    expect(openTags(svg)).toEqual([]);
    expect(svg).not.toContain('<b>');
    expect(svg).toContain('&lt;b&gt;&amp;&quot;');
    expect(Buffer.from(svg).toString()).toBe(svg);
    expect([...svg].filter((character) => character < ' ' && character !== '\n')).toEqual([]);
  });

  it('can be empty, or a single moment', () => {
    const lone = { id: 'A', label: 'A', events: [{ kind: 'read', atMs: 5, label: 'once' } as const] };
    for (const panels of [
      [],
      [{ title: 'none', lanes: [] }],
      [{ title: 'one', lanes: [lone, { id: 'B', label: 'B' }] }],
    ]) {
      const timeline = { title: 'Little', acts: [{ title: 'Act', panels }] };
      expectReadable(timeline);
      expect(renderTimeline(timeline)).not.toMatch(/NaN|Infinity/);
    }
    expectReadable({ title: 'Nothing', acts: [] });
  });

  it('refuses what it cannot draw, by name', () => {
    const drawing = (panel: Omit<TimelinePanel, 'title'>) => () =>
      renderTimeline({ title: '', acts: [{ title: '', panels: [{ title: 'late', ...panel }] }] });
    const lanes = [{ id: 'A', label: 'A' }];
    const arrows = [{ from: { lane: 'A', atMs: 0 }, to: { lane: 'Z', atMs: 1 } }];
    expect(drawing({ lanes, arrows })).toThrow('lane "Z"');
    const events = [{ kind: 'read', atMs: Number.NaN, label: '' } as const];
    expect(drawing({ lanes: [{ id: 'A', label: 'A', events }] })).toThrow('panel "late" has the time NaN');
  });
});

describe('the time scale', () => {
  const options = { left: 10, width: 600, gap: 15, laneGap: 30 };

  it('keeps order, gaps and the width', () => {
    const [one, other] = [
      [0, 2, 500, 4_000],
      [1, 3, 501],
    ];
    const scale = timeScale([one ?? [], other ?? []], options);
    const xs = (moments: readonly number[] = []) => moments.map((ms) => scale.x(ms));
    const gaps = (places: readonly number[]) => places.slice(1).map((x, i) => x - (places[i] ?? 0));
    const all = xs([0, 1, 2, 3, 500, 501, 4_000]);
    expect(Math.min(...gaps(all))).toBeGreaterThanOrEqual(15);
    expect(Math.min(...gaps(xs(one)), ...gaps(xs(other)))).toBeGreaterThanOrEqual(30);
    expect(all[0]).toBe(10);
    expect(all.at(-1)).toBeCloseTo(610, 6);
    expect(scale.x(250)).toBeGreaterThan(scale.x(3));
    expect(scale.x(250)).toBeLessThan(scale.x(500));
  });

  it('grows where the gaps need more than the width', () => {
    const moments = Array.from({ length: 40 }, (_, i) => i);
    expect(timeScale([moments], options).x(39)).toBe(10 + 39 * 30);
  });
});

/** The tags that are left open, or closed without having been opened; a stray bracket counts as well. */
function openTags(xml: string): string[] {
  const tag = /<(\/?)([a-z]\w*)(?:\s+[\w:-]+="[^"<]*")*\s*(\/?)>/gi;
  const open: string[] = [];
  for (const [, closes, name = '', isEmpty] of xml.matchAll(tag)) {
    if (isEmpty === '/') continue;
    if (closes !== '/') open.push(name);
    else if (open.at(-1) === name) open.pop();
    else open.push(`/${name}`);
  }
  const rest = xml.replace(tag, '').match(/[<>]/g) ?? [];
  return [...open, ...rest];
}

function randomTimeline(seed: number): Timeline {
  let state = seed;
  // Park and Miller's generator: any spread of cases will do, the same on every run.
  const below = (limit: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % limit;
  };
  const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T;
  const burst = [0, 5, 3_000, 3_004, 7_000];
  const moment = () => pick(burst) + below(30);
  const kinds: readonly TimelineEvent['kind'][] = [
    'acquired',
    'read',
    'write-sent',
    'write-refused',
    'woken',
  ];
  const spanKinds: readonly TimelineSpan['kind'][] = ['hold', 'wait', 'lease', 'claim', 'paused'];
  const lanes = Array.from({ length: 1 + below(4) }, (_, lane) => ({
    id: `${lane}`,
    label: `lane ${'x'.repeat(below(12))}`,
    ...(below(2) === 0 ? { note: 'a note' } : {}),
    // Moments of one lane differ: two at once would be one mark.
    events: [...new Set(Array.from({ length: below(9) }, moment))].map((atMs) => ({
      kind: pick(kinds),
      atMs,
      label: 'some words about it'.slice(0, 3 + below(17)),
    })),
    spans: Array.from({ length: below(4) }, (_unused, i) => {
      const fromMs = i * 3_000 + below(2_000);
      return { kind: pick(spanKinds), fromMs, toMs: fromMs + 5 + below(900), label: 'a span of words' };
    }),
  }));
  return { title: `random ${seed}`, acts: [{ title: 'act', panels: [{ title: 'panel', lanes }] }] };
}
