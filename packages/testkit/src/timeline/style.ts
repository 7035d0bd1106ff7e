import type { TimelineEvent, TimelineSpan } from './model.ts';

export const AXIS_NOTE = 'Times in seconds. The axis is stretched where moments are close together.';

/** In the order of the legend. */
export const SPAN_NAMES: Readonly<Record<TimelineSpan['kind'], string>> = {
  hold: 'believes that it holds the lock',
  wait: 'waits in the queue',
  lease: 'has the lock, while its lease lives',
  claim: 'tokens that the guard accepts',
  state: 'what is stored',
  'wrong-state': 'an update is missing in it',
  paused: 'process stopped',
  'held-back': 'network passes nothing on',
  fault: 'a fault',
  unknown: 'outcome unknown',
};

export const EVENT_NAMES: Readonly<Record<TimelineEvent['kind'], string>> = {
  acquired: 'acquired',
  claimed: 'guard claimed',
  checked: 'checked',
  read: 'read',
  'write-sent': 'write sent',
  'write-applied': 'write applied',
  'write-refused': 'write refused',
  'lost-update': 'late write applied, update lost',
  'lease-expired': 'lease expired',
  woken: 'woken',
  aborted: 'signal aborted',
  released: 'released',
  failed: 'failed',
  unknown: 'nobody knows whether it was done',
};

/** What the story is about stands out. */
export const WEIGHTS: Readonly<Partial<Record<TimelineEvent['kind'], 'bold'>>> = {
  'write-refused': 'bold',
  'lost-update': 'bold',
  failed: 'bold',
};

/** Each mark around its own origin, told from the others by shape as well as by colour. */
export const MARKS: Readonly<Record<TimelineEvent['kind'], string>> = {
  acquired: '<circle class="mark own" r="6"/>',
  released: '<circle class="mark hollow own" r="5.5"/>',
  claimed:
    '<path class="mark hollow own" d="M0 -7L6 -4.8V0.4C6 3.9 3 6.1 0 7.4C-3 6.1 -6 3.9 -6 0.4V-4.8Z"/>',
  checked:
    '<circle class="mark hollow quiet" r="4.5"/><path class="stroke quiet" d="M-2 0L-0.5 1.7L2.2 -1.6"/>',
  read: '<circle class="mark quiet" r="3.5"/>',
  'write-sent': '<path class="mark quiet" d="M-5 -5L6 0L-5 5L-2.5 0Z"/>',
  'write-applied':
    '<circle class="mark own" r="6.5"/><path class="stroke inner" d="M-3 0.2L-0.8 2.6L3.2 -2.4"/>',
  'write-refused':
    '<path class="mark good" d="M0 -8L7 -5.5V0.5C7 4.5 3.5 7 0 8.5C-3.5 7 -7 4.5 -7 0.5V-5.5Z"/>' +
    '<path class="stroke inner" d="M-2.4 -2.6L2.4 2.4M2.4 -2.6L-2.4 2.4"/>',
  'lost-update':
    '<path class="mark bad" d="M0 -7.5L8 6.5H-8Z"/><path class="stroke inner" d="M0 -2.8V1.8M0 4.1V4.3"/>',
  'lease-expired': '<path class="mark warn" d="M-5 -6H5L-5 6H5Z"/>',
  woken: '<path class="mark quiet" d="M-4.5 -6L6.5 0L-4.5 6Z"/>',
  aborted: '<path class="mark warn" d="M-6.5 0L0 -6.5L6.5 0L0 6.5Z"/>',
  failed:
    '<circle class="mark bad" r="6.5"/><path class="stroke inner" d="M-2.5 -2.5L2.5 2.5M2.5 -2.5L-2.5 2.5"/>',
  unknown:
    '<circle class="mark hollow warn" r="6"/><path class="stroke warn" d="M-2 -1.6C-2 -4.2 2 -4.2 2 -1.6C2 0 0 -0.2 0 1.2M0 3.4V3.5"/>',
};

/** Kinds of spans with a hatch over them. */
export const HATCHED = ['paused', 'held-back', 'unknown'] as const;

export function isHatched(kind: TimelineSpan['kind']): kind is (typeof HATCHED)[number] {
  return (HATCHED as readonly string[]).includes(kind);
}

const box = (kind: string, tone: string, fill = '') =>
  `<rect class="span ${kind} ${tone}" y="-12" width="26" height="15" rx="3"/>${fill}`;
const hatched = (kind: (typeof HATCHED)[number]) => (id: string) =>
  box(kind, 'tone-0', `<rect y="-12" width="26" height="15" rx="3" fill="url(#${id}-${kind})"/>`);

export const SWATCHES: Readonly<Record<TimelineSpan['kind'], (id: string) => string>> = {
  hold: () => box('hold', 'tone-1'),
  wait: () => box('wait', 'tone-0'),
  lease: () => box('lease', 'tone-1'),
  claim: () => box('claim', 'tone-1'),
  state: () => box('state', 'tone-0'),
  'wrong-state': () => box('wrong-state', 'tone-0'),
  paused: hatched('paused'),
  'held-back': hatched('held-back'),
  fault: () => box('fault', 'tone-0'),
  unknown: hatched('unknown'),
};

/** How many tokens have a colour of their own; then they repeat. */
export const TONES = 4;

export interface Palette {
  readonly page: string;
  readonly ink: string;
  readonly quiet: string;
  readonly faint: string;
  readonly good: string;
  readonly bad: string;
  readonly warn: string;
  readonly stopped: string;
  readonly content: string;
  readonly wrong: string;
  readonly inner: string;
  /** For no token, then for each in turn: strong, tint, text on the tint. */
  readonly tones: readonly (readonly [strong: string, tint: string, text: string])[];
}

export const LIGHT: Palette = {
  page: '#ffffff',
  ink: '#1f2630',
  quiet: '#5b6675',
  faint: '#e3e7ec',
  good: '#1a7f45',
  bad: '#c4302b',
  warn: '#a06000',
  stopped: '#e9ecf0',
  content: '#f1f3f6',
  wrong: '#fbdcd9',
  inner: '#ffffff',
  tones: [
    ['#5b6675', '#eef1f4', '#3b4450'],
    ['#2863c4', '#d9e6fb', '#17458f'],
    ['#a8480f', '#fbe3d0', '#7d350a'],
    ['#6f3fb0', '#e9defa', '#522b88'],
    ['#0b7a75', '#cdeeeb', '#075450'],
  ],
};

export const DARK: Palette = {
  page: '#11161d',
  ink: '#e4e9f0',
  quiet: '#9aa6b5',
  faint: '#27303b',
  good: '#3fb871',
  bad: '#f2695f',
  warn: '#e3a336',
  stopped: '#2b343f',
  content: '#1f2731',
  wrong: '#4d1f1c',
  inner: '#11161d',
  tones: [
    ['#8793a3', '#262e38', '#c3ccd8'],
    ['#6ea3f5', '#1c3355', '#b5d1ff'],
    ['#ec9a5e', '#47290f', '#ffcfa8'],
    ['#b78cf0', '#372556', '#dcc7ff'],
    ['#48bfb8', '#0f3d3a', '#a9ece7'],
  ],
};

function colours(palette: Palette): string {
  const { page, ink, quiet, faint, good, bad, warn, stopped, content, wrong, inner } = palette;
  const tones = palette.tones.map(([strong, tint, text], i) => {
    const tone = `.tl .tone-${i}`;
    return (
      `${tone}.hold,${tone} .own{fill:${strong}}${tone} .hollow.own{fill:${page};stroke:${strong}}` +
      `${tone}.lease,${tone}.claim{fill:${tint};stroke:${strong}}.tl .on-tint.tone-${i}{fill:${text}}`
    );
  });
  return (
    `.tl .page{fill:${page}}.tl text{fill:${ink};stroke:${page}}.tl .halo{stroke:${page}}` +
    `.tl .subtitle,.tl .note,.tl .tick,.tl .legend,.tl .time,.tl .below{fill:${quiet}}` +
    `.tl .rule,.tl .grid,.tl .base{stroke:${faint}}.tl .axis,.tl .leader,.tl line.guide{stroke:${quiet}}` +
    tones.join('') +
    `.tl .tone-good .own{fill:${good}}.tl .wait{stroke:${quiet}}.tl .paused,.tl .held-back{fill:${stopped};stroke:${quiet}}` +
    `.tl .held-back,.tl .fault{stroke:${warn}}.tl .unknown.span{fill:${page};stroke:${quiet}}.tl .fault{fill:${stopped}}.tl .hatch.unknown{stroke:${quiet}}.tl .hatch.paused{stroke:${quiet}}.tl .hatch.held-back{stroke:${warn}}` +
    `.tl .state{fill:${content};stroke:${quiet}}.tl .wrong-state{fill:${wrong};stroke:${bad}}` +
    `.tl .on-wrong{fill:${bad};stroke:${wrong}}.tl .on-strong{fill:${inner}}.tl .on-stopped{fill:${ink};stroke:${stopped}}` +
    `.tl .mark{stroke:${page}}.tl .quiet{fill:${quiet}}.tl .hollow.quiet{fill:${page};stroke:${quiet}}` +
    `.tl .stroke.quiet{stroke:${quiet}}.tl .hollow.warn{fill:${page};stroke:${warn}}.tl .stroke.warn{stroke:${warn}}.tl .stroke.inner{stroke:${inner}}` +
    `.tl .mark.good{fill:${good}}.tl .mark.bad{fill:${bad}}.tl .mark.warn:not(.hollow){fill:${warn}}` +
    `.tl text.good,.tl text.write-refused{fill:${good}}` +
    `.tl text.bad,.tl text.lost-update,.tl text.failed{fill:${bad}}` +
    `.tl text.lease-expired,.tl text.aborted,.tl text.label.unknown{fill:${warn}}.tl tspan.time,.tl text.guide{fill:${quiet}}` +
    `.tl .arrow.plain{stroke:${quiet}}.tl .arrow.refused{stroke:${good}}.tl .arrow.harmful{stroke:${bad}}` +
    `.tl .head.plain{fill:${quiet}}.tl .head.refused{fill:${good}}.tl .head.harmful{fill:${bad}}`
  );
}

/** Colours are written out, not as variables, for viewers that know none. Print is always light. */
export const STYLE =
  '.tl text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;' +
  'stroke-width:4px;stroke-linejoin:round;paint-order:stroke}' +
  '.tl .title{font-size:21px;font-weight:650}.tl .subtitle{font-size:13.5px}' +
  '.tl .act{font-size:16.5px;font-weight:650}.tl .panel,.tl .lane{font-weight:650;font-size:14px}' +
  '.tl .note,.tl .tick,.tl .time,.tl .legend,.tl .below,.tl text.guide{font-size:12px}' +
  '.tl .tick,.tl .middle,.tl text.guide{text-anchor:middle}.tl .end{text-anchor:end}' +
  '.tl .label{font-weight:500}.tl .label.bold{font-weight:600}.tl .time{font-weight:400}.tl text.good,.tl text.bad{font-weight:600}' +
  '.tl .in-span{font-weight:600;font-size:12px}' +
  '.tl .on-strong,.tl .on-tint{stroke:none}' +
  '.tl .wait{fill:none;stroke-dasharray:4 3}.tl .span{stroke-width:1}.tl .hold{stroke:none}' +
  '.tl .paused,.tl .held-back{fill-opacity:.86}.tl .unknown.span{fill-opacity:.6;stroke-dasharray:3 2}.tl .hatch{stroke-width:2.4;stroke-opacity:.5}' +
  '.tl .mark{stroke-width:1.5}.tl .hollow{stroke-width:2}' +
  '.tl .stroke{fill:none;stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}' +
  '.tl .grid{stroke-dasharray:2 4}.tl line.guide{stroke-dasharray:5 4}' +
  '.tl .leader{stroke-width:1;stroke-opacity:.6}' +
  '.tl .arrow{fill:none;stroke-width:1.8}.tl .arrow.halo{stroke-width:5}.tl .arrow.refused{stroke-dasharray:6 3}' +
  colours(LIGHT) +
  `@media screen and (prefers-color-scheme:dark){${colours(DARK)}}`;
