// The matrix as people read it: a line a pause point, a column a storage.
import { PAUSE_POINTS, type PausePoint } from './pause-points.ts';
import type { Matrix, Row } from './run-storage.ts';
import { STORAGES, type Storage, type StorageName } from './storages.ts';

const POINTS = Object.keys(PAUSE_POINTS) as PausePoint[];
const LEGEND = 'lost / stale accepted / rejected / unknown';

export function textOf(matrix: Matrix): string {
  return [
    ...Object.entries(matrix.storages).map(([name, version]) => `${name}: ${version}`),
    '',
    `With the guard (${LEGEND})`,
    ...aligned(grid(matrix, matrix.rows)),
    '',
    'The same without a guard',
    ...aligned(grid(matrix, matrix.unguarded)),
    '',
    ...reasons(matrix),
    '',
  ].join('\n');
}

export function markdownOf(matrix: Matrix): string {
  return [
    `Each cell: ${LEGEND}.`,
    '',
    ...piped(grid(matrix, matrix.rows)),
    '',
    'The same without a guard:',
    '',
    ...piped(grid(matrix, matrix.unguarded)),
    '',
    ...reasons(matrix).map((reason) => `- ${reason}`),
    '',
    `Played on ${Object.values(matrix.storages).join(', ')}.`,
    '',
  ].join('\n');
}

function grid({ storages }: Matrix, rows: readonly Row[]): readonly (readonly string[])[] {
  const names = Object.keys(storages) as StorageName[];
  const cell = (pausePoint: PausePoint, storage: StorageName) => {
    const row = rows.find((each) => each.pausePoint === pausePoint && each.storage === storage);
    return row === undefined ? '-' : `${row.lost} / ${row.staleAccepted} / ${row.rejected} / ${row.unknown}`;
  };
  return [
    ['pause point', ...names],
    ...POINTS.map((point) => [point, ...names.map((name) => cell(point, name))]),
  ];
}

/** Why there is a dash. */
function reasons({ storages }: Matrix): readonly string[] {
  return (Object.keys(storages) as StorageName[]).flatMap((name) => {
    const { without }: Storage = STORAGES[name];
    const points = (why: string) => POINTS.filter((point) => without[point] === why).join('; ');
    return [...new Set(Object.values(without))].map((why) => `${name}, ${points(why)}: ${why}`);
  });
}

function aligned(lines: readonly (readonly string[])[]): readonly string[] {
  const widths = (lines[0] ?? []).map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, at) => text.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

function piped(lines: readonly (readonly string[])[]): readonly string[] {
  const [head = [], ...body] = lines.map((line) => `| ${line.join(' | ')} |`);
  return [head as string, `|${'---|'.repeat(lines[0]?.length ?? 0)}`, ...(body as string[])];
}
