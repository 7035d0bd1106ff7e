// The code of docs/testkit.md, as its readers would have it: each block in a file of the name in its first line.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

const here = fileURLToPath(new URL('.', import.meta.url));
/** Workers that the samples start run on sources too. */
const ON_SOURCES = '--conditions=@lockkeeper/source';
const VITEST_CONFIG = `const conditions = ['@lockkeeper/source', 'node'];
export default { resolve: { conditions }, ssr: { resolve: { conditions } }, test: { pool: 'forks' } };
`;

let folder: string;
let tests: readonly string[];
beforeAll(async () => {
  const page = await readFile(new URL('../../docs/testkit.md', import.meta.url), 'utf8');
  const samples = [...page.matchAll(/^```ts\n\/\/ (\S+)\n(.*?)^```$/gms)];
  // Beside this file, so that they find the packages as a user's would.
  folder = await mkdtemp(join(here, '.documented-'));
  for (const [, name = '', code = ''] of samples) await writeFile(join(folder, name), code);
  await writeFile(join(folder, 'vitest.config.mjs'), VITEST_CONFIG);
  tests = samples.map(([, name = '']) => name).filter((name) => name.endsWith('.test.ts'));
});
afterAll(() => rm(folder, { recursive: true }));

const run = (args: readonly string[]) => {
  const { VITEST, VITEST_WORKER_ID, VITEST_POOL_ID, NODE_ENV, ...env } = process.env;
  return promisify(execFile)(process.execPath, [...args], {
    cwd: folder,
    env: { ...env, NODE_OPTIONS: ON_SOURCES, NO_COLOR: '1' },
  });
};

it('the samples for Vitest pass', { timeout: 180_000 }, async () => {
  const vitest = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));
  const { stdout } = await run([vitest, 'run', '--root', folder, '--maxWorkers', '2']);
  expect(tests.length).toBeGreaterThanOrEqual(4);
  expect(stdout).toMatch(new RegExp(`Test Files +${tests.length} passed \\(${tests.length}\\)`));
});

it('the sample for node:test passes', { timeout: 60_000 }, async () => {
  const { stdout } = await run(['--import', 'tsx', '--test', '--test-reporter=tap', 'late-write.node.ts']);
  expect(stdout).toMatch(/^# pass 1\n# fail 0$/m);
});
