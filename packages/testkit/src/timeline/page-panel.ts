import { escapeText, svg, text } from './markup.ts';
import type { TimelineEvent, TimelinePanel } from './model.ts';
import { layOutPanel, type PanelLayout, panelEnd, widen } from './panel.ts';
import { EVENT_NAMES, isHatched, MARKS, SPAN_NAMES, WEIGHTS } from './style.ts';
import { textWidth } from './text-width.ts';

/** What the page prints on: A4, landscape, inside its margins, in pixels of CSS. */
const PAPER = 1_020;
/** How high a picture may be, so that the page's heading and what is found fit above it. */
const HIGHEST_PRINT = 430;
/** Print smaller than this cannot be read. */
const SMALLEST_PRINT = 0.62;

/**
 * A panel of the page. Across, everything stands at a share of the picture's width, so that the picture can be
 * made as wide as one likes; what belongs to a moment keeps its size. Labels that then meet are hidden by the
 * script, which finds in `data-*` what it needs: natural places in pixels.
 */
export function drawPagePanel(panel: TimelinePanel, id: string, gutter: number): string {
  const layout = layOutPanel(panel, { x: 0, top: 0, left: 0, zooms: true });
  const picture = new Picture(layout);
  const { natural, height } = picture;
  const fitting = Math.min(PAPER / (gutter + natural), HIGHEST_PRINT / height);
  const printZoom = Math.min(1, Math.max(SMALLEST_PRINT, fitting));
  const printWidth = Math.floor(PAPER / printZoom - gutter);
  const style = svg`--natural:${natural}px;--print-zoom:${printZoom.toFixed(3)};--print-width:${printWidth}px`;
  const about = `${panel.title}: use the arrow keys to go from one event to the next, + and − to zoom, 0 to see all`;
  return [
    `<section class="tl-panel" aria-labelledby="${id}-title" style="${style}" data-natural="${natural}" data-print="${printWidth}">`,
    `<div class="tl-head"><h3 id="${id}-title">${escapeText(panel.title)}</h3>${verdictOf(panel)}${TOOLS}</div>`,
    notesOf(panel),
    `<div class="tl-frame"><svg class="tl tl-names" aria-hidden="true" width="${gutter}" height="${height}">${picture.names()}</svg>`,
    `<div class="tl-view" tabindex="0" role="group" aria-label="${escapeText(about)}">`,
    `<svg class="tl tl-plot" height="${height}">${picture.plot()}</svg></div></div>`,
    storyOf(layout),
    '</section>',
  ]
    .filter((part) => part !== '')
    .join('\n');
}

const TOOLS =
  '<div class="tl-tools" role="group" aria-label="Zoom"><button type="button" data-zoom="out" aria-label="Zoom out">−</button>' +
  '<output aria-live="polite">100 %</output><button type="button" data-zoom="in" aria-label="Zoom in">+</button>' +
  '<button type="button" data-zoom="all">All</button></div>';

function verdictOf({ verdict }: TimelinePanel): string {
  if (verdict === undefined) return '';
  const tone = verdict.good ? 'good' : 'bad';
  const mark = MARKS[verdict.good ? 'write-applied' : 'failed'];
  return (
    `<p class="tl-verdict ${tone}"><svg class="tl" viewBox="-8 -8 16 16" aria-hidden="true"><g class="tone-${tone}">${mark}</g></svg>` +
    `<span>${escapeText(verdict.text)}</span></p>`
  );
}

function notesOf({ notes = [] }: TimelinePanel): string {
  if (notes.length === 0) return '';
  const items = notes.map(({ severity, text, at }) => {
    const words = escapeText(text);
    const place = at && `data-lane="${escapeText(at.lane)}" data-at="${at.atMs}"`;
    return `<li class="${severity}">${place ? `<button type="button" ${place}>${words}</button>` : words}</li>`;
  });
  return `<ul class="tl-notes" aria-label="Findings">${items.join('\n')}</ul>`;
}

function storyOf({ story }: PanelLayout): string {
  const items = story.map(
    ({ time, lane, label }) =>
      `<li><b>${time} s</b> ${escapeText(lane)}${lane === '' ? '' : ': '}${escapeText(label)}</li>`,
  );
  return `<details class="tl-story"><summary>In words, ${story.length} lines</summary><ol>${items.join('\n')}</ol></details>`;
}

class Picture {
  readonly #layout: PanelLayout;
  /** The panel's heading is not part of the picture. */
  readonly #lift: number;
  readonly natural: number;
  readonly height: number;

  constructor(layout: PanelLayout) {
    this.#lift = layout.titleY + 10;
    this.natural = Math.ceil(Math.max(layout.plot.right, panelEnd(layout) + 8));
    this.#layout = widen(layout, this.natural);
    this.height = Math.ceil(layout.plot.bottom - this.#lift + 30);
  }

  names(): string {
    return this.#layout.lanes
      .map(({ label, note, labelY, top }) => {
        const y = labelY - this.#lift;
        return (
          svg`<line class="rule" x2="100%" y1="${top - this.#lift}" y2="${top - this.#lift}"/>` +
          text('lane', 0, y, label) +
          (note === undefined ? '' : text('note', 0, y + 15, note))
        );
      })
      .join('\n');
  }

  plot(): string {
    const { lanes, ticks, spans, events, arrows, guides, plot } = this.#layout;
    const bottom = plot.bottom - this.#lift;
    const top = (lanes[0]?.top ?? plot.bottom) - this.#lift;
    return [
      ...lanes.map((lane) => {
        const [y, middle] = [lane.top - this.#lift, lane.middle - this.#lift];
        return (
          svg`<line class="rule" x2="100%" y1="${y}" y2="${y}"/>` +
          svg`<line class="base" x2="100%" y1="${middle}" y2="${middle}"/>`
        );
      }),
      ...ticks.map(({ x, label, rank }) => {
        // Finer ones keep more distance, so that the coarse ones stay the rule.
        const width = Math.ceil(textWidth(label, 12)) + (rank > 0 ? 28 : 0);
        return (
          `<g class="tick${rank > 0 ? ' fine' : ''}" ${this.#moved(x, 0)} data-rank="${rank}" ${place(x, -width / 2, width, 'axis')}>` +
          svg`<line class="grid" y1="${top}" y2="${bottom}"/><text class="tick" y="${bottom + 18}">${label}</text></g>`
        );
      }),
      svg`<line class="axis" x2="100%" y1="${bottom}" y2="${bottom}"/>`,
      ...spans.map((span) => this.#span(span)),
      ...guides.map(
        ({ x, y, label }) =>
          `<g ${this.#moved(x, 0)}>` +
          svg`<line class="guide" y1="${y - this.#lift + 4}" y2="${bottom}"/><text class="guide" y="${y - this.#lift}">${escapeText(label)}</text></g>`,
      ),
      ...arrows.map(({ kind, from, to, x1, y1, x2, y2 }) => {
        const line = `x1="${this.#share(x1)}" x2="${this.#share(x2)}" y1="${(y1 - this.#lift).toFixed(1)}" y2="${(y2 - this.#lift).toFixed(1)}"`;
        const ends = [from.x, from.y - this.#lift, to.x, to.y - this.#lift]
          .map((n) => n.toFixed(2))
          .join(' ');
        return (
          `<g class="arrows" data-ends="${ends}"><line class="arrow halo" ${line}/>` +
          `<line class="arrow ${kind}" ${line} marker-end="url(#tl-${kind})"/></g>`
        );
      }),
      ...spans.map((span) => this.#spanLabel(span)),
      // The important ones on top, where many are in one place.
      ...events.toSorted((a, b) => rankOf(b.kind) - rankOf(a.kind)).map((event) => this.#event(event)),
      '<rect class="ring hidden" rx="6"/>',
    ]
      .filter((part) => part !== '')
      .join('\n');
  }

  #span(span: PanelLayout['spans'][number]): string {
    const { kind, tone, x, y, width, height, source, lane } = span;
    const at = `x="${this.#share(x)}" width="${this.#share(width)}"`;
    const box = svg`${at} y="${y - this.#lift}" height="${height}" rx="4"`;
    const hatch = isHatched(kind) ? svg`<rect ${box} fill="url(#tl-${kind})" pointer-events="none"/>` : '';
    const [from, to] = [
      this.#time(source.fromMs),
      source.toMs === undefined ? undefined : this.#time(source.toMs),
    ];
    const lasts =
      source.toMs === undefined ? undefined : `${readable((source.toMs - source.fromMs) / 1000)} s`;
    const details = {
      From: from,
      Until: to ?? 'the end',
      Lasts: lasts,
      Token: source.token,
      ...source.details,
    };
    const open = this.#item(source.label, SPAN_NAMES[kind], source.fromMs, lane, details);
    return `${open} data-span="${x.toFixed(2)} ${(x + width).toFixed(2)}" class="item"><rect class="span ${kind} ${tone}" ${box}/>${hatch}</g>`;
  }

  #spanLabel({ label, x }: PanelLayout['spans'][number]): string {
    if (label === undefined) return '';
    const { room } = label;
    const y = label.y - this.#lift;
    const width = Math.ceil(textWidth(label.text, 12, room === undefined ? 'regular' : 'bold'));
    const data =
      room === undefined
        ? place(x, 0, width, y.toFixed(0))
        : `data-room="${room.x.toFixed(2)} ${room.end.toFixed(2)}" data-w="${width}"`;
    const at = room === undefined ? label.x : (room.x + room.end) / 2;
    return svg`<text class="${label.className} ${label.anchor}" x="${this.#share(at)}" y="${y}" ${data}>${escapeText(label.text)}</text>`;
  }

  #event({
    kind,
    tone,
    x,
    y,
    leader,
    label,
    time,
    width,
    source,
    lane,
  }: PanelLayout['events'][number]): string {
    const details = { At: this.#time(source.atMs), Token: source.token, ...source.details };
    const open = this.#item(source.label, EVENT_NAMES[kind], source.atMs, lane, details);
    const offset = label.x - x - (label.anchor === 'end' ? width : 0);
    const labelY = label.y - this.#lift;
    const [from, to] = [leader.from - this.#lift, leader.to - this.#lift];
    return (
      `<g ${this.#moved(x, 0)} data-span="${x.toFixed(2)} ${x.toFixed(2)}"><g class="said" data-rank="${rankOf(kind)}" data-leader="${from.toFixed(0)} ${to.toFixed(0)}" ${place(x, offset, width, labelY.toFixed(0))}>` +
      svg`<line class="leader" y1="${from}" y2="${to}"/>` +
      svg`<text class="label ${kind} ${WEIGHTS[kind] ?? ''} ${label.anchor}" x="${label.x - x}" y="${labelY}">${escapeText(label.text)} <tspan class="time">${time}</tspan></text></g>` +
      svg`<g transform="translate(0 ${y - this.#lift})">${open} class="item ${tone}"><circle class="hit" r="11"/>${MARKS[kind]}</g></g></g>`
    );
  }

  /** The open tag of something that can be pointed at. */
  #item(
    label: string | undefined,
    kind: string,
    atMs: number,
    lane: PanelLayout['spans'][number]['lane'],
    details: Readonly<Record<string, string | undefined>>,
  ): string {
    const title = label === undefined || label === '' ? kind : label;
    const what = title === kind ? undefined : kind;
    const rows = Object.entries({ '': title, What: what, Where: lane.label || undefined, ...details });
    const known = rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
    const name = `${this.#time(atMs)}, ${lane.label}: ${title}`;
    return `<g role="img" tabindex="-1" aria-label="${escapeText(name)}" data-lane="${escapeText(lane.id)}" data-at="${atMs}" data-rows="${escapeText(JSON.stringify(known))}"`;
  }

  #time(ms: number): string {
    return `${readable((ms - this.#layout.originMs) / 1000)} s`;
  }

  #share(x: number): string {
    return `${((x / this.natural) * 100).toFixed(6).replace(/\.?0+$/, '')}%`;
  }

  #moved(x: number, y: number): string {
    return `style="transform:translate(${this.#share(x)},${y}px)"`;
  }
}

/** Where a label stands: from its moment, how far to the left it begins, how wide it is, and in which row. */
function place(x: number, offset: number, width: number, row: string): string {
  return svg`data-x="${x.toFixed(2)}" data-from="${offset}" data-w="${Math.ceil(width)}" data-row="${row}"`;
}

/** Which labels are left when there is no room for all: 0 first. */
function rankOf(kind: TimelineEvent['kind']): number {
  if (WEIGHTS[kind] !== undefined) return 0;
  const second: readonly TimelineEvent['kind'][] = [
    'lease-expired',
    'aborted',
    'unknown',
    'woken',
    'acquired',
  ];
  return second.includes(kind) ? 1 : 2;
}

/** To a microsecond at most, without zeros that say nothing. */
function readable(value: number): string {
  return String(Number(value.toFixed(6)));
}
