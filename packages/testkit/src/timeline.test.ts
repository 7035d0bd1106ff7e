import { describe, expect, it } from 'vitest';
import { sampleTimeline } from './fixtures/sample-timeline.ts';
import { renderTimeline } from './timeline.ts';
import { layOut, type TimelineLayout } from './timeline-layout.ts';
import type { Timeline, TimelineEvent, TimelineSpan } from './timeline-model.ts';
import { timeScale } from './timeline-scale.ts';
import { textWidth } from './timeline-text.ts';

interface Box {
  readonly what: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Every text of the acts, with the space that it takes. */
function textBoxes({ acts }: TimelineLayout): Box[] {
  return acts.flatMap((act) => [
    ...act.events.map(({ label, time, labelX, labelY }) => {
      const width = textWidth(`${label} `, 13) + textWidth(time, 12);
      return { what: label, x: labelX, y: labelY - 10, width, height: 13 };
    }),
    ...act.spans.flatMap(({ label }) => {
      if (label === undefined) return [];
      const width = textWidth(label.text, 12);
      const x = label.className === 'below' ? label.x : label.x - width / 2;
      return [{ what: label.text, x, y: label.y - 9, width, height: 12 }];
    }),
    ...act.lanes.flatMap(({ label, note, labelY }) => [
      { what: label, x: act.x, y: labelY - 10, width: textWidth(label, 14.5), height: 13 },
      ...(note === undefined
        ? []
        : [{ what: note, x: act.x, y: labelY + 5, width: textWidth(note, 12), height: 12 }]),
    ]),
  ]);
}

/** What must stay free of text: marks, and the leaders between them and their labels. */
function strokeBoxes({ acts }: TimelineLayout): Box[] {
  return acts.flatMap((act) =>
    act.events.flatMap(({ label, x, middle, labelY }) => [
      { what: `mark of ${label}`, x: x - 6, y: middle - 6, width: 12, height: 12 },
      {
        what: `leader of ${label}`,
        x,
        y: labelY + 4,
        width: 0,
        height: Math.max(0, middle - 8 - labelY - 4),
      },
    ]),
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
  it('of a real story has no two texts in one place', () => {
    expectReadable(sampleTimeline);
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
      'Without a guard.',
      'acquires t1 = 5',
      'lease expires',
      'acquires t2 = 9',
      'B’s 20 are gone',
      'With a guard.',
      'refused: stale-token',
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
          verdict: { good: false, text: nasty },
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
    });
    expect(openTags(svg)).toEqual([]);
    expect(svg).not.toContain('<b>');
    expect(svg).toContain('&lt;b&gt;&amp;&quot;');
    expect(Buffer.from(svg).toString()).toBe(svg);
    expect([...svg].filter((character) => character < ' ' && character !== '\n')).toEqual([]);
  });

  it('can be empty, or a single moment', () => {
    expectReadable({ title: 'Nothing', acts: [] });
    const lone = { id: 'A', label: 'A', events: [{ kind: 'read', atMs: 5, label: 'once' } as const] };
    expectReadable({ title: 'One', acts: [{ title: 'Act', lanes: [lone, { id: 'B', label: 'B' }] }] });
    expect(renderTimeline({ title: 'One', acts: [{ title: 'Act', lanes: [lone] }] })).not.toContain('NaN');
  });

  it('refuses what it cannot draw, by name', () => {
    const lanes = [{ id: 'A', label: 'A' }];
    const arrows = [{ from: { lane: 'A', atMs: 0 }, to: { lane: 'Z', atMs: 1 } }];
    expect(() => renderTimeline({ title: '', acts: [{ title: '', lanes, arrows }] })).toThrow('lane "Z"');
    const events = [{ kind: 'read', atMs: Number.NaN, label: '' } as const];
    const broken = { title: 'late', lanes: [{ id: 'A', label: 'A', events }] };
    expect(() => renderTimeline({ title: '', acts: [broken] })).toThrow('act "late" has the time NaN');
  });
});

describe('the time scale', () => {
  it('keeps order, gaps and the width', () => {
    const moments = [0, 1, 2, 3, 500, 501, 4_000];
    const scale = timeScale(moments, 10, 600, 22);
    const xs = moments.map((ms) => scale.x(ms));
    const gaps = xs.slice(1).map((x, i) => x - (xs[i] ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(22);
    expect(xs[0]).toBe(10);
    expect(xs.at(-1)).toBeCloseTo(610, 6);
    expect(scale.x(250)).toBeGreaterThan(scale.x(3));
    expect(scale.x(250)).toBeLessThan(scale.x(500));
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
  const spanKinds: readonly TimelineSpan['kind'][] = ['hold', 'wait', 'lease', 'paused'];
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
  return { title: `random ${seed}`, acts: [{ title: 'act', lanes }] };
}
