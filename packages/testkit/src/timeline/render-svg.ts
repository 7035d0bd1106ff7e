import { type LegendEntry, layOut, type TimelineLayout } from './layout.ts';
import type { Timeline } from './model.ts';
import type { PanelLayout } from './panel.ts';
import { MARKS, STYLE, SWATCHES, WEIGHTS } from './style.ts';

const AXIS_NOTE = 'Times in seconds. The axis is stretched where moments are close together.';

/**
 * Draws a timeline as one self-contained SVG document: no scripts, no outside fonts or files; light and
 * dark as the reader's system is, light in print; with a title and a description for screen readers. The
 * same timeline gives the same text.
 *
 * Moments keep their order and line up across lanes. Where many are close together the axis is stretched,
 * so that each can be told from the next; its ticks say where.
 */
export function renderTimeline(timeline: Timeline): string {
  const layout = layOut(timeline);
  const id = `timeline-${hash(JSON.stringify(timeline))}`;
  const size = `viewBox="0 0 ${layout.width} ${layout.height}" width="${layout.width}" height="${layout.height}"`;
  return [
    svg`<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-labelledby="${id}-title ${id}-desc" class="tl">`,
    svg`<title id="${id}-title">${escapeText(timeline.title)}</title>`,
    svg`<desc id="${id}-desc">${escapeText(describe(timeline, layout))}</desc>`,
    svg`<style>${STYLE}</style>`,
    svg`<defs>${patterns(id)}${arrowHeads(id)}</defs>`,
    svg`<rect class="page" width="${layout.width}" height="${layout.height}"/>`,
    text('title', layout.margin, 34, timeline.title),
    timeline.subtitle === undefined ? '' : text('subtitle', layout.margin, 55, timeline.subtitle),
    ...layout.acts.flatMap(({ title, titleY, panels }) => [
      text('act', layout.margin, titleY, title),
      ...panels.map((panel) => drawPanel(panel, id)),
    ]),
    drawLegend(layout.legend, layout.margin, layout.legendY, id),
    text('legend', layout.margin, layout.height - 16, AXIS_NOTE),
    '</svg>\n',
  ]
    .filter((part) => part !== '')
    .join('\n');
}

function drawPanel(panel: PanelLayout, id: string): string {
  const { left, right, bottom } = panel.plot;
  const top = panel.lanes[0]?.top ?? bottom;
  return [
    '<g>',
    drawHeading(panel),
    ...panel.ticks.map(({ x }) => svg`<line class="grid" x1="${x}" y1="${top}" x2="${x}" y2="${bottom}"/>`),
    ...panel.lanes.map(
      (lane) =>
        svg`<line class="rule" x1="${panel.x}" y1="${lane.top}" x2="${right}" y2="${lane.top}"/>` +
        text('lane', panel.x, lane.labelY, lane.label) +
        (lane.note === undefined ? '' : text('note', panel.x, lane.labelY + 15, lane.note)) +
        svg`<line class="base" x1="${left}" y1="${lane.middle}" x2="${right}" y2="${lane.middle}"/>`,
    ),
    ...panel.spans.map((span) => drawSpan(span, id)),
    ...panel.guides.map(
      ({ x, y, label }) =>
        svg`<line class="guide" x1="${x}" y1="${y + 4}" x2="${x}" y2="${bottom}"/>${text('guide', x, y, label)}`,
    ),
    ...panel.arrows.map(
      ({ kind, x1, y1, x2, y2 }) =>
        svg`<path class="arrow halo" d="M${x1} ${y1}L${x2} ${y2}"/>` +
        svg`<path class="arrow ${kind}" d="M${x1} ${y1}L${x2} ${y2}" marker-end="url(#${id}-${kind})"/>`,
    ),
    ...panel.events.map(
      ({ x, leader }) =>
        svg`<line class="leader" x1="${x}" y1="${leader.from}" x2="${x}" y2="${leader.to}"/>`,
    ),
    ...panel.spans.map(({ label }) =>
      label === undefined ? '' : text(`${label.className} ${label.anchor}`, label.x, label.y, label.text),
    ),
    ...panel.events.map(drawEvent),
    ...drawAxis(panel),
    '</g>',
  ]
    .filter((part) => part !== '')
    .join('\n');
}

function drawHeading({ x, titleY, title, verdict }: PanelLayout): string {
  const heading = text('panel', x, titleY, title);
  if (verdict === undefined) return heading;
  const mark = MARKS[verdict.good ? 'write-applied' : 'failed'];
  return (
    svg`${heading}<g class="${verdict.good ? 'tone-good' : ''}" transform="translate(${verdict.x} ${titleY - 4.5})">${mark}</g>` +
    text(verdict.good ? 'good' : 'bad', verdict.x + 12, titleY, verdict.text)
  );
}

function drawAxis({ plot: { left, right, bottom }, ticks }: PanelLayout): string[] {
  return [
    svg`<line class="axis" x1="${left}" y1="${bottom}" x2="${right}" y2="${bottom}"/>`,
    ...ticks.map(
      ({ x, label }) =>
        svg`<line class="axis" x1="${x}" y1="${bottom}" x2="${x}" y2="${bottom + 5}"/>` +
        (label === '' ? '' : text('tick', x, bottom + 18, label)),
    ),
  ];
}

function drawEvent({ kind, tone, x, y, label, time }: PanelLayout['events'][number]): string {
  return (
    svg`<g class="${tone}" transform="translate(${x} ${y})"><title>${escapeText(`${time} s: ${label.text}`)}</title>${MARKS[kind]}</g>` +
    svg`<text class="label ${kind} ${WEIGHTS[kind] ?? ''} ${label.anchor}" x="${label.x}" y="${label.y}">${escapeText(label.text)} <tspan class="time">${time}</tspan></text>`
  );
}

function drawSpan(span: PanelLayout['spans'][number], id: string): string {
  const { x, y, width, height } = span;
  const box = svg`x="${x}" y="${y}" width="${width}" height="${height}" rx="4"`;
  const hatched = span.kind === 'paused' || span.kind === 'held-back';
  const hatch = hatched ? svg`<rect ${box} fill="url(#${id}-${span.kind})"/>` : '';
  return svg`<rect class="span ${span.kind} ${span.tone}" ${box}/>${hatch}`;
}

function drawLegend(entries: readonly LegendEntry[], x: number, y: number, id: string): string {
  return entries
    .map((entry) => {
      const at = svg`translate(${x + entry.x} ${y + entry.y})`;
      const swatch =
        entry.shape === 'mark'
          ? svg`<g class="tone-0" transform="translate(9 -4)">${MARKS[entry.kind]}</g>`
          : SWATCHES[entry.kind](id);
      return svg`<g transform="${at}">${swatch}${text('legend', entry.shape === 'mark' ? 22 : 34, 0, entry.text)}</g>`;
    })
    .join('\n');
}

function patterns(id: string): string {
  return (['paused', 'held-back'] as const)
    .map(
      (kind) =>
        svg`<pattern id="${id}-${kind}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
        svg`<line class="hatch ${kind}" x1="0" y1="0" x2="0" y2="7"/></pattern>`,
    )
    .join('');
}

function arrowHeads(id: string): string {
  return (['plain', 'refused', 'harmful'] as const)
    .map(
      (kind) =>
        svg`<marker id="${id}-${kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" markerUnits="userSpaceOnUse">` +
        svg`<path class="head ${kind}" d="M0 0.5L8 4L0 7.5Z"/></marker>`,
    )
    .join('');
}

/** What a reader who cannot see the picture needs: everything that happens, in order. */
function describe(timeline: Timeline, layout: TimelineLayout): string {
  const acts = layout.acts.flatMap(({ title, panels }) => [
    `${title}.`,
    ...panels.flatMap((panel) => [
      `${panel.title}.`,
      ...panel.story.map(({ time, lane, label }) => `${time} s, ${lane}: ${label}.`),
      panel.verdict?.text ?? '',
    ]),
  ]);
  return [timeline.subtitle ?? '', ...acts].filter((part) => part !== '').join(' ');
}

function text(className: string, x: number, y: number, content: string): string {
  return svg`<text class="${className}" x="${x}" y="${y}">${escapeText(content)}</text>`;
}

/** Pixels are written to a tenth. */
function svg(parts: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  const written = values.map((value) => (typeof value === 'number' ? Math.round(value * 10) / 10 : value));
  return String.raw({ raw: parts }, ...written);
}

/** Control characters are not allowed in XML at all, so they go. */
function escapeText(content: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
  };
  return content
    .replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, '')
    .replace(/[&<>"]/g, (character) => entities[character] ?? '');
}

/** Two timelines in one page must not share ids, which are global there. */
function hash(content: string): string {
  let value = 5381;
  for (const character of content) value = (Math.imul(value, 33) ^ (character.codePointAt(0) ?? 0)) >>> 0;
  return value.toString(36);
}
