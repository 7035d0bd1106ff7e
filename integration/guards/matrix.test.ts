// The matrix of pause points as tests: one for each point of each storage. `npm run matrix` prints it.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { node22 } from '../support/node22.ts';
import { Ledger } from './matrix/ledger.ts';
import { PAUSE_POINTS, type PausePoint } from './matrix/pause-points.ts';
import { loadsSqlite, runMatrix } from './matrix/run-matrix.ts';
import type { Matrix, Row } from './matrix/run-storage.ts';
import { STORAGES, type Storage, type StorageName } from './matrix/storages.ts';

const POINTS = Object.keys(PAUSE_POINTS) as PausePoint[];
const NAMES = (Object.keys(STORAGES) as StorageName[]).filter(
  (name) => name !== 'sqlite' || loadsSqlite() || node22() !== undefined,
);

describe('an old owner that pauses', () => {
  let matrix: Matrix;
  beforeAll(async () => {
    matrix = await runMatrix(NAMES);
  }, 300_000);

  it('is watched on at least six storages, all of which could be started, and nothing broke', () => {
    expect(matrix.missing).toEqual({});
    expect(matrix.faults).toEqual([]);
    expect(Object.keys(matrix.storages).length).toBeGreaterThanOrEqual(6);
  });

  describe.each(NAMES)('%s', (storage) => {
    const { without }: Storage = STORAGES[storage];
    const find = (rows: readonly Row[], pausePoint: PausePoint) =>
      rows.find((row) => row.storage === storage && row.pausePoint === pausePoint);

    it.each(POINTS.filter((point) => without[point] === undefined))('%s', (pausePoint) => {
      const guarded = find(matrix.rows, pausePoint);
      expect(guarded).toMatchObject({ lost: 0, staleAccepted: 0 });
      expect(guarded?.rejected).toBeGreaterThan(0);
      // The same play without the guard does lose something, so it can find a loss.
      expect(find(matrix.unguarded, pausePoint)?.lost).toBeGreaterThan(0);
    });
  });
});

describe('the documentation', () => {
  it('shows the table of the program: its points, its storages, no loss with a guard', async () => {
    const page = await readFile(new URL('../../docs/guards/README.md', import.meta.url), 'utf8');
    const lines = (page.split('<!-- npm run matrix -- --markdown -->')[1] ?? '').split('\n');
    const cells = (start: string) =>
      lines
        .find((line) => line.startsWith(`| ${start} |`))
        ?.split('|')
        .slice(2, -1);
    expect(cells('pause point')?.map((name) => name.trim())).toEqual(Object.keys(STORAGES));
    for (const point of POINTS) {
      const shown = cells(point)?.map((cell) => cell.trim().slice(0, 6));
      const expected = Object.values<Storage>(STORAGES).map(({ without }) =>
        without[point] === undefined ? '0 / 0 ' : '-',
      );
      expect(shown, point).toEqual(expected);
    }
  });
});

describe('the ledger', () => {
  it('counts what was acknowledged and is gone, what came too late, and who was told the wrong thing', () => {
    const ledger = new Ledger();
    const [a1, b1, a2, a3, a4] = [...'abaaa'].map((owner) => ledger.enter(owner as 'a' | 'b'));
    ledger.note(`${a1}`, 'applied');
    ledger.takenOver(`${a1}`);
    ledger.note(`${b1}`, 'applied');
    ledger.note(`${a2}`, 'applied');
    ledger.note(`${a3}`, 'rejected');
    ledger.note(`${a4}`, 'unknown');
    const verdict = ledger.close(`${a1}${a2}${a3}`);
    expect(verdict).toMatchObject({ lost: 1, staleAccepted: 2, rejected: 1, unknown: 1 });
    expect(verdict.faults).toEqual([`${a3}was applied, but its writer was told: rejected`]);
  });
});

describe('the program', () => {
  it('writes exactly one document with --json', async () => {
    const { code, stdout } = await matrixProgram('--json', '--only', 'memory');
    const { rows, unguarded, ...rest } = JSON.parse(stdout);
    expect(rest).toEqual({});
    expect(rows).toHaveLength(5);
    expect(rows[0]).toEqual({
      storage: 'memory',
      pausePoint: 'after the grant and before the claim',
      lost: 0,
      staleAccepted: 0,
      rejected: 2,
      unknown: 0,
    });
    expect(unguarded[0]).toMatchObject({ storage: 'memory', lost: 1 });
    expect(code).toBe(0);
  });

  it.each([[['--fast']], [['--only', 'oracle']], [['--json', '--markdown']], [['memory']]])(
    'refuses %j before it starts anything',
    async (args) => {
      const { code, stdout, stderr } = await matrixProgram(...args);
      expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
      expect(stderr).toContain('Usage: npm run matrix');
    },
  );
});

function matrixProgram(...args: readonly string[]) {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const main = fileURLToPath(new URL('matrix/main.ts', import.meta.url));
  const argv = ['--conditions=@lockkeeper/source', '--import', tsx, main, ...args];
  return new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
    execFile(process.execPath, argv, { timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : error.code, stdout, stderr });
    });
  });
}
