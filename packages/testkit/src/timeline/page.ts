import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { History } from '../history/history.ts';
import { arrowHeads, patterns, swatchOf } from './drawing.ts';
import { type HistoryTimelineOptions, timelineOfHistory } from './from-history.ts';
import { gutterOf, legendOf } from './layout.ts';
import { escapeText } from './markup.ts';
import type { Timeline } from './model.ts';
import { drawPagePanel } from './page-panel.ts';
import { PAGE_STYLE } from './page-style.ts';
import { AXIS_NOTE } from './style.ts';

/**
 * Draws a timeline, or a history, as one self-contained HTML page: it loads nothing, and its own policy forbids
 * it to. Zoom by buttons, by `+`, `−` and `0`, or by Ctrl and the wheel; pan by dragging or scrolling; point at
 * anything, or go from one to the next by the arrow keys, to see all that is known of it. Light and dark as the
 * reader's system is; on paper light, with labels. The same input gives the same text.
 *
 * It stays usable with some 5,000 events; where labels would meet, the less important are hidden until there is
 * room for them.
 */
export function renderTimelinePage(
  content: Timeline | History,
  options: HistoryTimelineOptions = {},
): string {
  const timeline = isHistory(content) ? timelineOfHistory(content, options) : content;
  const { title, subtitle, acts } = timeline;
  const gutter = gutterOf(timeline);
  const script = pageScript();
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${sha256(script)}'`;
  return [
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark">',
    `<title>${escapeText(title)}</title>`,
    `<style>${PAGE_STYLE}</style></head>`,
    '<body><div class="tl-all">',
    `<svg class="tl" width="0" height="0" style="position:absolute" aria-hidden="true"><defs>${patterns('tl')}${arrowHeads('tl')}</defs></svg>`,
    `<header><h1>${escapeText(title)}</h1>${subtitle === undefined ? '' : `<p class="tl-sub">${escapeText(subtitle)}</p>`}</header>`,
    '<main>',
    ...acts.map((act, a) =>
      [
        act.title === '' ? '' : `<h2>${escapeText(act.title)}</h2>`,
        ...act.panels.map((panel, p) => drawPagePanel(panel, `tl-${a}-${p}`, gutter)),
      ].join('\n'),
    ),
    '</main>',
    `<footer>${legendList(timeline)}<p class="tl-note">${AXIS_NOTE}</p>${KEYS}</footer>`,
    '</div><div class="tl-tip" role="tooltip" id="tl-tip" hidden></div>',
    `<script>${script}</script>`,
    '</body></html>\n',
  ].join('\n');
}

const KEYS =
  '<p class="tl-note tl-keys">Zoom: <kbd>Ctrl</kbd> + wheel, <kbd>+</kbd> <kbd>−</kbd>, <kbd>0</kbd> for all. ' +
  'Pan: drag, or scroll sideways. The arrow keys go from one event to the next, and from lane to lane.</p>';

function isHistory(content: Timeline | History): content is History {
  return Array.isArray(content);
}

function legendList(timeline: Timeline): string {
  const items = legendOf(timeline).map((entry) => {
    const width = entry.shape === 'mark' ? 18 : 27;
    const swatch = `<svg class="tl" width="${width}" height="18" aria-hidden="true"><g transform="translate(0.5 13.5)">${swatchOf(entry, 'tl')}</g></svg>`;
    return `<li>${swatch}<span>${escapeText(entry.text)}</span></li>`;
  });
  return items.length === 0 ? '' : `<ul class="tl-legend" aria-label="Legend">${items.join('\n')}</ul>`;
}

let script: string | undefined;

/** The script lies beside this file, in the package as in the sources. */
function pageScript(): string {
  script ??= readFileSync(new URL('./page-script.mjs', import.meta.url), 'utf8');
  return script;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}
