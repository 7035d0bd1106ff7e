import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startEtcd, startPostgres } from '@lockkeeper/testkit';
import pg from 'pg';
import { expect, it } from 'vitest';

const here = fileURLToPath(new URL('.', import.meta.url));

it("the README's example runs as it stands", async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8');
  const examples = [...readme.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code ?? '');
  const example = examples.find((code) => code.includes('postgresGuard')) ?? expect.unreachable('no example');
  await using etcd = await startEtcd();
  await using postgres = await startPostgres();
  await using pool = disposable(new pg.Pool({ connectionString: postgres.url }));
  await pool.query(
    "CREATE TABLE invoice (state text); INSERT INTO invoice VALUES ('new'), ('new'), ('paid')",
  );

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
  const { rows } = await pool.query('SELECT state, count(*)::int FROM invoice GROUP BY state ORDER BY state');
  expect(rows).toEqual([
    { state: 'paid', count: 1 },
    { state: 'sent', count: 2 },
  ]);
});

function disposable(pool: pg.Pool): pg.Pool & AsyncDisposable {
  return Object.assign(pool, { [Symbol.asyncDispose]: () => pool.end() });
}
