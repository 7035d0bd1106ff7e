import type { LegendEntry } from './layout.ts';
import { svg } from './markup.ts';
import { HATCHED, MARKS, SWATCHES } from './style.ts';

/** A sample of what a legend's entry explains, 26 wide for a span and 18 for a mark, standing on a text's line. */
export function swatchOf(entry: LegendEntry, id: string): string {
  return entry.shape === 'mark'
    ? svg`<g class="tone-0" transform="translate(9 -4)">${MARKS[entry.kind]}</g>`
    : SWATCHES[entry.kind](id);
}

export function patterns(id: string): string {
  return HATCHED.map(
    (kind) =>
      svg`<pattern id="${id}-${kind}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
      svg`<line class="hatch ${kind}" x1="0" y1="0" x2="0" y2="7"/></pattern>`,
  ).join('');
}

export function arrowHeads(id: string): string {
  return (['plain', 'refused', 'harmful'] as const)
    .map(
      (kind) =>
        svg`<marker id="${id}-${kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" markerUnits="userSpaceOnUse">` +
        svg`<path class="head ${kind}" d="M0 0.5L8 4L0 7.5Z"/></marker>`,
    )
    .join('');
}
