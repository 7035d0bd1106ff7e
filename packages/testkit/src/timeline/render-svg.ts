import { arrowHeads, patterns, swatchOf } from './drawing.ts';
import { layOut, type PlacedLegendEntry, type TimelineLayout } from './layout.ts';
import { escapeText, hash, svg, text } from './markup.ts';
import type { Timeline } from './model.ts';
import type { PanelLayout } from './panel.ts';
import { AXIS_NOTE, isHatched, MARKS, STYLE, WEIGHTS } from './style.ts';

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
  const hatch = isHatched(span.kind) ? svg`<rect ${box} fill="url(#${id}-${span.kind})"/>` : '';
  return svg`<rect class="span ${span.kind} ${span.tone}" ${box}/>${hatch}`;
}

function drawLegend(entries: readonly PlacedLegendEntry[], x: number, y: number, id: string): string {
  return entries
    .map((entry) => {
      const at = svg`translate(${x + entry.x} ${y + entry.y})`;
      return svg`<g transform="${at}">${swatchOf(entry, id)}${text('legend', entry.shape === 'mark' ? 22 : 34, 0, entry.text)}</g>`;
    })
    .join('\n');
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
