import { CONTESTANTS } from './contestants.ts';
import type { Tally } from './group.ts';
import type { Experiment } from './run-experiment.ts';

const HEADS = ['', 'acknowledged', 'lost', 'late writes', 'refused', 'unknown', 'pauses'] as const;

/** A row as its cells. */
function cellsOf(row: Tally): readonly string[] {
  const { contestant, acknowledged, lost, late, refused, unknown, pauses } = row;
  const share = acknowledged === 0 ? '' : ` (${((100 * lost) / acknowledged).toFixed(1)} %)`;
  const counts = [late, refused, unknown, pauses].map(String);
  return [CONTESTANTS[contestant], `${acknowledged}`, `${lost}${share}`, ...counts];
}

export function textOf(experiment: Experiment): string {
  const rows = [HEADS, ...experiment.rows.map(cellsOf)];
  const widths = HEADS.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
  return `${summaryOf(experiment)}\n\n${lines.join('\n')}\n`;
}

export function markdownOf(experiment: Experiment): string {
  const lines = [
    `| ${HEADS.join(' | ')} |`,
    `|---${'|--:'.repeat(HEADS.length - 1)}|`,
    ...experiment.rows.map((row) => `| ${cellsOf(row).join(' | ')} |`),
  ];
  return `${summaryOf(experiment)}\n\n${lines.join('\n')}\n`;
}

function summaryOf({ servers, seconds }: Experiment): string {
  return `${servers}; ${seconds} s.`;
}
