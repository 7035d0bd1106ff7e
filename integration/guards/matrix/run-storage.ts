// Plays every pause point that a storage has, one after another, each with its guard and without.
import { performance } from 'node:perf_hooks';
import { Cast } from './cast.ts';
import { Ledger, type Verdict } from './ledger.ts';
import { PAUSE_POINTS, type PausePoint } from './pause-points.ts';
import type { Stage } from './scene.ts';
import { STORAGES, type Storage, type StorageName } from './storages.ts';

/** How long the old owner stays away while the new one waits for it. */
const PATIENCE_MS = 500;
/** Longer than a storage that ends frozen writers takes to do it. */
const FROZEN_MS = 9_000;
/** A play that hangs must not hang the rest. */
const PLAY_LIMIT_MS = 60_000;

export interface Row extends Omit<Verdict, 'faults'> {
  readonly storage: StorageName;
  readonly pausePoint: PausePoint;
}

/** What one storage or several have shown. It survives JSON. */
export interface Matrix {
  readonly rows: readonly Row[];
  /** The same plays by owners that nobody checks: shows that they can find a loss. */
  readonly unguarded: readonly Row[];
  /** With their versions. */
  readonly storages: Partial<Readonly<Record<StorageName, string>>>;
  /** What could not be started, and why. */
  readonly missing: Partial<Readonly<Record<StorageName, string>>>;
  /** What must not be, and is in no count. */
  readonly faults: readonly string[];
}

export type Report = (line: string) => void;

/** Never rejects: what breaks is a fault, or a storage that is missing. */
export async function runStorage(storage: StorageName, report: Report): Promise<Matrix> {
  let stage: Stage;
  try {
    stage = await STORAGES[storage].open();
  } catch (error) {
    return { rows: [], unguarded: [], storages: {}, missing: { [storage]: `${error}` }, faults: [] };
  }
  const rows: Row[] = [];
  const unguarded: Row[] = [];
  const faults: string[] = [];
  const plan: Storage = STORAGES[storage];
  for (const pausePoint of Object.keys(PAUSE_POINTS) as PausePoint[]) {
    if (plan.without[pausePoint] !== undefined) continue;
    const begun = performance.now();
    try {
      const guarded = await play(stage, plan, 'guarded', pausePoint);
      const plain = await play(stage, plan, 'plain', pausePoint);
      rows.push(rowOf(storage, pausePoint, guarded));
      unguarded.push(rowOf(storage, pausePoint, plain));
      faults.push(...faultsOf(guarded, plain).map((what) => `${storage}, ${pausePoint}: ${what}`));
    } catch (error) {
      faults.push(`${storage}, ${pausePoint}: ${whole(error)}`);
    }
    report(`${storage}: ${pausePoint} (${((performance.now() - begun) / 1_000).toFixed(1)} s)`);
  }
  try {
    await stage[Symbol.asyncDispose]();
  } catch (error) {
    faults.push(`${storage}, at its end: ${whole(error)}`);
  }
  return { rows, unguarded, storages: { [storage]: stage.name }, missing: {}, faults };
}

async function play(
  stage: Stage,
  { endsFrozenWriters = false }: Storage,
  kind: 'guarded' | 'plain',
  pausePoint: PausePoint,
): Promise<Verdict> {
  const next = pausePoint === 'as a writer, while a reader claims' ? 'reader' : 'writer';
  await using scene = await stage.setScene(kind, next);
  const ledger = new Ledger();
  const frozen = endsFrozenWriters && pausePoint === 'inside an open transaction';
  const cast = new Cast(scene, ledger, frozen ? FROZEN_MS : PATIENCE_MS);
  await limited(PAUSE_POINTS[pausePoint](cast));
  return ledger.close(await scene.peek());
}

function rowOf(storage: StorageName, pausePoint: PausePoint, verdict: Verdict): Row {
  const { lost, staleAccepted, rejected, unknown } = verdict;
  return { storage, pausePoint, lost, staleAccepted, rejected, unknown };
}

/** A play in which nothing happened proves nothing. */
function faultsOf(guarded: Verdict, plain: Verdict): readonly string[] {
  return [
    ...guarded.faults,
    ...(guarded.rejected === 0 ? ['the old owner was never refused'] : []),
    ...(plain.lost === 0 ? ['without the guard nothing was lost either'] : []),
  ];
}

async function limited(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    const error = new Error(`it did not end within ${PLAY_LIMIT_MS} ms`);
    timer = setTimeout(() => reject(error), PLAY_LIMIT_MS);
  });
  await Promise.race([work, limit]).finally(() => clearTimeout(timer));
}

/** With what is behind it. */
function whole(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? `${error.stack}` : `${error.stack}\n  because of ${whole(error.cause)}`;
}
