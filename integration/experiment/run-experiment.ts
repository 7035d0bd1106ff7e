// All three groups side by side, on one etcd and one PostgreSQL, for as long as it takes.
import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { type History, startEtcd, startPostgres } from '@lockkeeper/testkit';
import pg from 'pg';
import { type Contestant, NAMES } from './contestants.ts';
import { Group, type Tally, tallyOf } from './group.ts';
import { ListStore } from './list-store.ts';

export interface Experiment {
  /** `etcd 3.5.30, PostgreSQL 15.18`. */
  readonly servers: string;
  readonly seconds: number;
  readonly rows: readonly Tally[];
  readonly histories: Readonly<Record<Contestant, History>>;
}

const REPORT_EVERY_MS = 10_000;

/** @param seconds - at least; up to three times that while a group without a guard has lost nothing. */
export async function runExperiment(seconds: number, say: (line: string) => void): Promise<Experiment> {
  await using etcd = await startEtcd({ version: 'newest', own: true });
  await using postgres = await startPostgres({ own: true });
  const pool = new pg.Pool({ connectionString: postgres.url });
  pool.on('error', (error) => say(`an idle connection broke: ${error.message}`));
  await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
  await postgresGuard(pool, { resource: 'list' }).migrate();

  await using groups = await startGroups(pool, etcd.endpoint, postgres.url);
  const began = performance.now();
  const elapsed = () => (performance.now() - began) / 1000;
  const enough = new AbortController();
  setMaxListeners(0, enough.signal);
  const pauses = Promise.all(groups.all.map((group) => group.pauseUntil(enough.signal)));
  try {
    let rows = tallies(await groups.histories());
    while (elapsed() < seconds || (elapsed() < 3 * seconds && !showsLosses(rows))) {
      await delay(Math.min(REPORT_EVERY_MS, seconds * 1000));
      rows = tallies(await groups.histories());
      say(`${elapsed().toFixed(0)} s: ${rows.map(progressOf).join('; ')}`);
    }
  } finally {
    enough.abort();
    await pauses;
  }
  const took = elapsed();
  await Promise.all(groups.all.map((group) => group.finish()));
  const histories = await groups.histories();
  return {
    servers: `etcd ${etcd.version}, PostgreSQL ${postgres.version}`,
    seconds: Math.round(took),
    rows: tallies(histories),
    histories,
  };
}

async function startGroups(pool: pg.Pool, etcdEndpoint: string, postgresUrl: string) {
  const all: Group[] = [];
  const end = async () => {
    await Promise.all(all.map((group) => group[Symbol.asyncDispose]()));
  };
  try {
    for (const contestant of NAMES) {
      const store = new ListStore(pool, contestant);
      await store.create();
      all.push(await Group.start(contestant, store, { etcdEndpoint, postgresUrl }));
    }
  } catch (error) {
    await end();
    throw error;
  }
  return {
    all,
    histories: async () => {
      const told = all.map(async (group) => [group.contestant, await group.history()] as const);
      return Object.fromEntries(await Promise.all(told)) as Record<Contestant, History>;
    },
    [Symbol.asyncDispose]: end,
  };
}

function tallies(histories: Readonly<Record<Contestant, History>>): readonly Tally[] {
  return NAMES.map((contestant) => tallyOf(contestant, histories[contestant]));
}

function progressOf({ contestant, acknowledged, lost }: Tally): string {
  return `${contestant} ${acknowledged} acknowledged, ${lost} lost`;
}

/** Whether the pauses did what they are there for, wherever nothing stands in their way. */
export function showsLosses(rows: readonly Tally[]): boolean {
  return rows.every(({ contestant, lost }) => contestant === 'guarded' || lost > 0);
}
