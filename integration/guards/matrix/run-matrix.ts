// All storages side by side: they mostly wait.
import { node22 } from '../../support/node22.ts';
import { findDriver } from '../sqlite/drivers.ts';
import { runInNode } from './other-node.ts';
import { type Matrix, type Report, runStorage } from './run-storage.ts';
import type { StorageName } from './storages.ts';

/** Never rejects, as `runStorage` does not. */
export async function runMatrix(names: readonly StorageName[], report: Report = () => {}): Promise<Matrix> {
  const parts = await Promise.all(names.map((name) => runWhereItLoads(name, report)));
  return {
    rows: parts.flatMap(({ rows }) => rows),
    unguarded: parts.flatMap(({ unguarded }) => unguarded),
    storages: Object.assign({}, ...parts.map(({ storages }) => storages)),
    missing: Object.assign({}, ...parts.map(({ missing }) => missing)),
    faults: parts.flatMap(({ faults }) => faults),
  };
}

/** SQLite's driver may need a newer Node than this one. */
async function runWhereItLoads(storage: StorageName, report: Report): Promise<Matrix> {
  const node = storage === 'sqlite' && !loadsSqlite() ? node22() : undefined;
  if (node === undefined) return runStorage(storage, report);
  return runInNode<Matrix>(node, new URL('sqlite-worker.ts', import.meta.url)).catch((error) => {
    return { rows: [], unguarded: [], storages: {}, missing: { [storage]: `${error}` }, faults: [] };
  });
}

export function loadsSqlite(): boolean {
  return (['node:sqlite', 'better-sqlite3'] as const).some((name) => findDriver(name).driver !== undefined);
}
