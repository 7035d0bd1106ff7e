import { type ActLayout, type LegendEntry, layOut, type TimelineLayout } from './timeline-layout.ts';
import type { Timeline } from './timeline-model.ts';
import { MARKS, STYLE, SWATCHES } from './timeline-style.ts';

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
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-labelledby="${id}-title ${id}-desc" class="tl">`,
    `<title id="${id}-title">${escapeText(timeline.title)}</title>`,
    `<desc id="${id}-desc">${escapeText(describe(timeline, layout))}</desc>`,
    `<style>${STYLE}</style>`,
    `<defs>${patterns(id)}${arrowHeads(id)}</defs>`,
    `<rect class="page" width="${layout.width}" height="${layout.height}"/>`,
    text('title', layout.margin, 34, timeline.title),
    timeline.subtitle === undefined ? '' : text('subtitle', layout.margin, 55, timeline.subtitle),
    ...layout.acts.map((act) => drawAct(act, id)),
    drawLegend(layout.legend, layout.margin, layout.legendY, id),
    text('legend', layout.margin, layout.height - 16, AXIS_NOTE),
    '</svg>\n',
  ]
    .filter((part) => part !== '')
    .join('\n');
}

function drawAct(act: ActLayout, id: string): string {
  const { left, right, top, bottom } = act.plot;
  return [
    '<g>',
    text('act', act.x, act.titleY, act.title),
    act.verdict === undefined
      ? ''
      : `<g transform="translate(${act.x + 6} ${act.verdictY - 4})">${MARKS[act.verdict.good ? 'write-applied' : 'write-refused']}</g>` +
        text(act.verdict.good ? 'good' : 'bad', act.x + 18, act.verdictY, act.verdict.text),
    ...act.ticks.map(({ x }) => `<line class="grid" x1="${x}" y1="${top}" x2="${x}" y2="${bottom}"/>`),
    ...act.lanes.map(
      (lane) =>
        `<line class="rule" x1="${act.x}" y1="${lane.top}" x2="${right}" y2="${lane.top}"/>` +
        text('lane', act.x, lane.labelY, lane.label) +
        (lane.note === undefined ? '' : text('note', act.x, lane.labelY + 15, lane.note)) +
        `<line class="base" x1="${left}" y1="${lane.middle}" x2="${right}" y2="${lane.middle}"/>`,
    ),
    ...act.spans.map((span) => drawSpan(span, id)),
    ...act.arrows.map(
      ({ kind, x1, y1, x2, y2 }) =>
        `<path class="arrow halo" d="M${x1} ${y1}L${x2} ${y2}"/>` +
        `<path class="arrow ${kind}" d="M${x1} ${y1}L${x2} ${y2}" marker-end="url(#${id}-${kind})"/>`,
    ),
    ...act.events.map(
      ({ x, middle, labelY }) =>
        `<line class="leader" x1="${x}" y1="${labelY + 4}" x2="${x}" y2="${middle - 8}"/>`,
    ),
    ...act.spans.map(({ label }) =>
      label === undefined ? '' : text(label.className, label.x, label.y, label.text),
    ),
    ...act.events.map(
      (event) =>
        `<g class="${event.tone}" transform="translate(${event.x} ${event.middle})"><title>${escapeText(`${event.time} s: ${event.label}`)}</title>${MARKS[event.kind]}</g>` +
        `<text class="label ${event.kind}" x="${event.labelX}" y="${event.labelY}">${escapeText(event.label)} <tspan class="time">${event.time}</tspan></text>`,
    ),
    `<line class="axis" x1="${left}" y1="${bottom}" x2="${right}" y2="${bottom}"/>`,
    ...act.ticks.map(
      ({ x, label }) =>
        `<line class="axis" x1="${x}" y1="${bottom}" x2="${x}" y2="${bottom + 5}"/>` +
        (label === '' ? '' : text('tick', x, bottom + 18, label)),
    ),
    '</g>',
  ]
    .filter((part) => part !== '')
    .join('\n');
}

function drawSpan(span: ActLayout['spans'][number], id: string): string {
  const { x, y, width, height } = span;
  const box = `x="${x}" y="${y}" width="${width}" height="${height}" rx="4"`;
  const hatched = span.kind === 'paused' || span.kind === 'held-back';
  const hatch = hatched ? `<rect ${box} fill="url(#${id}-${span.kind})"/>` : '';
  return `<rect class="span ${span.kind} ${span.tone}" ${box}/>${hatch}`;
}

function drawLegend(entries: readonly LegendEntry[], x: number, y: number, id: string): string {
  return entries
    .map((entry) => {
      const at = `translate(${x + entry.x} ${y + entry.y})`;
      const swatch =
        entry.shape === 'mark'
          ? `<g class="tone-0" transform="translate(9 -4)">${MARKS[entry.kind]}</g>`
          : SWATCHES[entry.kind](id);
      return `<g transform="${at}">${swatch}${text('legend', entry.shape === 'mark' ? 22 : 34, 0, entry.text)}</g>`;
    })
    .join('\n');
}

function patterns(id: string): string {
  return (['paused', 'held-back'] as const)
    .map(
      (kind) =>
        `<pattern id="${id}-${kind}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
        `<line class="hatch ${kind}" x1="0" y1="0" x2="0" y2="7"/></pattern>`,
    )
    .join('');
}

function arrowHeads(id: string): string {
  return (['plain', 'applied', 'refused'] as const)
    .map(
      (kind) =>
        `<marker id="${id}-${kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" markerUnits="userSpaceOnUse">` +
        `<path class="head ${kind}" d="M0 0.5L8 4L0 7.5Z"/></marker>`,
    )
    .join('');
}

/** What a reader who cannot see the picture needs: everything that happens, in order. */
function describe(timeline: Timeline, layout: TimelineLayout): string {
  const acts = layout.acts.map((act) => {
    const moments = act.story.map(({ time, lane, label }) => `${time} s, ${lane}: ${label}.`);
    return [`${act.title}.`, ...moments, act.verdict?.text ?? ''].join(' ').trim();
  });
  return [timeline.subtitle ?? '', ...acts].join(' ').trim();
}

function text(className: string, x: number, y: number, content: string): string {
  return `<text class="${className}" x="${x}" y="${y}">${escapeText(content)}</text>`;
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
