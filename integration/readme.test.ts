import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type EtcdServer, type PostgresServer, startEtcd, startPostgres } from '@lockkeeper/testkit';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';

const here = fileURLToPath(new URL('.', import.meta.url));

let etcd: EtcdServer;
let postgres: PostgresServer;
let pool: pg.Pool;
beforeAll(async () => {
  [etcd, postgres] = await Promise.all([startEtcd(), startPostgres()]);
  pool = new pg.Pool({ connectionString: postgres.url });
  await pool.query('CREATE TABLE invoice (state text)');
});
afterAll(async () => {
  await pool?.end();
  await Promise.all([postgres?.stop(), etcd?.stop()]);
});

/** The first example of a page that has this in it. */
async function exampleOf(page: string, marker: string): Promise<string> {
  const text = await readFile(new URL(`../${page}`, import.meta.url), 'utf8');
  const examples = [...text.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code ?? '');
  return examples.find((code) => code.includes(marker)) ?? expect.unreachable(`no example in ${page}`);
}

async function runAsItStands(example: string): Promise<void> {
  // Beside this file, so that it finds the packages as a user's file would.
  const folder = await mkdtemp(join(here, '.readme-'));
  try {
    const file = join(folder, 'example.mjs');
    await writeFile(file, example);
    const env = { ...process.env, ETCD_ENDPOINTS: etcd.endpoint, POSTGRES_URL: postgres.url };
    const args = ['--conditions=@lockkeeper/source', '--import', 'tsx', file];
    const run = await promisify(execFile)(process.execPath, args, { env, cwd: here, timeout: 60_000 });
    expect(run).toMatchObject({ stdout: '', stderr: '' });
  } finally {
    await rm(folder, { recursive: true });
  }
}

it.each(['README.md', 'packages/resource-guard/README.md'])(
  'the example of %s runs as it stands, and does what it says',
  async (page) => {
    await pool.query("TRUNCATE invoice; INSERT INTO invoice VALUES ('new'), ('new'), ('paid')");
    await runAsItStands(await exampleOf(page, 'postgresGuard'));
    const { rows } = await pool.query(
      'SELECT state, count(*)::int FROM invoice GROUP BY state ORDER BY state',
    );
    expect(rows).toEqual([
      { state: 'paid', count: 1 },
      { state: 'sent', count: 2 },
    ]);
  },
);

it.each([
  ['packages/core/README.md', 'fencedTxn'],
  ['packages/fencing/README.md', 'FencingToken'],
  ['packages/testkit/README.md', 'lateWrite'],
])('the example of %s runs as it stands', async (page, marker) => {
  await runAsItStands(await exampleOf(page, marker));
});
