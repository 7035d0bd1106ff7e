// The recorded runs as one picture that needs nothing else: times and tokens are those of the record.
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PlayedAct } from './acts.ts';
import { element, escaped, text } from './svg.ts';
import { drawPanel, PANEL_HEIGHT } from './timeline-panel.ts';
import { leastWidth } from './timeline-scale.ts';
import type { World } from './world.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LEFT = 132;
const MARGIN = 20;
const TOP = 84;
const ACT_HEADING = 34;

/** Replaces the picture of the last run. @returns its path, relative to the repository. */
export async function saveTimeline(world: World, acts: readonly PlayedAct[]): Promise<string> {
  const name = world.simulated ? 'timeline-simulated.svg' : 'timeline.svg';
  const file = join(ROOT, '.cache', 'demo', name);
  await mkdir(dirname(file), { recursive: true });
  // Whoever looks meanwhile sees the old one or the new one.
  const beside = `${file}.${process.pid}`;
  await writeFile(beside, drawTimeline(world, acts));
  await rename(beside, file);
  return relative(ROOT, file);
}

export function drawTimeline(world: World, acts: readonly PlayedAct[]): string {
  const runs = acts.flatMap(({ unguarded, guarded }) => [unguarded, guarded]);
  const right = LEFT + Math.max(1_000, ...runs.map(({ events }) => leastWidth(events) + 200));
  const width = right + MARGIN;
  const frame = { left: LEFT, right, names: world.names };
  const parts: string[] = [];
  let y = TOP;
  for (const [index, { act, unguarded, guarded }] of acts.entries()) {
    parts.push(text(MARGIN, y + 20, `Act ${index + 1}: ${act.title}`, 'act'));
    y += ACT_HEADING;
    for (const run of [unguarded, guarded]) {
      parts.push(drawPanel(run, y, frame));
      y += PANEL_HEIGHT;
    }
  }
  const height = y + MARGIN;
  const title = `${world.simulated ? 'SIMULATED: ' : ''}A late write, without a guard and with one`;
  const where = world.simulated ? 'in memory, on a virtual clock' : `${world.coordinator}, ${world.storage}`;
  const key = `${where}, leases of ${world.ttlMs / 1_000} s. Numbers in the bars of A, B and the lease are tokens.`;
  const axis =
    'Left to right in the order of time, in seconds since the run began; stretched where much happens at once.';
  return element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: 'img',
    },
    [
      element('title', {}, escaped(title)),
      element('style', {}, STYLE),
      DEFINITIONS,
      element('rect', { width: '100%', height: '100%', fill: '#ffffff' }),
      text(MARGIN, 30, title, 'title'),
      text(MARGIN, 52, key, 'label'),
      text(MARGIN, 68, axis, 'label'),
      ...parts,
    ].join('\n'),
  );
}

const STYLE = `
text { font-family: system-ui, 'Helvetica Neue', Arial, sans-serif; fill: #1f2933; }
.label, .good, .bad, .time { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
.title { font-size: 20px; font-weight: 700; }
.act { font-size: 15px; font-weight: 700; }
.run { font-size: 13px; font-weight: 600; }
.lane { font-size: 12px; font-weight: 600; }
.label, .good, .bad { font-size: 11px; }
.right { text-anchor: end; font-size: 12px; font-weight: 600; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.time { font-size: 10px; fill: #52606d; }
.in-bar { font-size: 11px; }
.strong { font-weight: 700; }
text.good { fill: #11703f; font-weight: 700; }
text.bad { fill: #b3261e; font-weight: 700; }
.base { stroke: #cbd2d9; stroke-width: 1; fill: none; }
.bar.A { fill: #bcd7f5; stroke: #2f6fb5; }
.bar.B { fill: #fbdca4; stroke: #b7791f; }
.queue { fill: #ffffff; stroke-dasharray: 3 2; }
.queue.A { stroke: #2f6fb5; }
.queue.B { stroke: #b7791f; }
.stopped { fill: url(#hatch); stroke: #7b8794; }
.balance { fill: #e4e7eb; stroke: #7b8794; }
.wrong { fill: #f8c9c4; stroke: #b3261e; }
.promise { stroke: #11703f; fill: none; }
.hand-over { stroke: #52606d; stroke-dasharray: 4 4; fill: none; }
.dot { fill: #1f2933; stroke: #ffffff; }
circle.good { fill: #11703f; stroke-width: 1px; }
circle.bad { fill: #b3261e; stroke-width: 1px; }
circle.label { stroke-width: 1px; }
.write { fill: none; stroke-width: 2; }
.write.on-time { stroke: #52606d; }
.write.late { stroke: #b3261e; }
.write.refused { stroke: #11703f; stroke-dasharray: 6 3; }
`;

function arrow(id: string, colour: string): string {
  const head = element('path', { d: 'M0,0 L8,4 L0,8 z', fill: colour });
  const size = { viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 8, markerHeight: 8 };
  return element('marker', { id, ...size, markerUnits: 'userSpaceOnUse', orient: 'auto' }, head);
}

const DEFINITIONS = element(
  'defs',
  {},
  [
    arrow('on-time', '#52606d'),
    arrow('late', '#b3261e'),
    arrow('refused', '#11703f'),
    element(
      'pattern',
      { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
      element('rect', { width: 6, height: 6, fill: '#f1f3f5' }) +
        element('rect', { width: 2, height: 6, fill: '#cbd2d9' }),
    ),
  ].join(''),
);
