// The suite in another Node, by node:test; each of its tests is shown as one of Vitest's.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { beforeAll, describe, it } from 'vitest';
import type { Driver } from './drivers.ts';
import { sqliteSuite } from './suite.ts';

interface Result {
  readonly suite: string;
  readonly name: string;
  readonly ending: 'passed' | 'failed' | 'skipped';
  readonly error: string;
}

/** Registers the tests that the suite has, and runs them in `node`. */
export function elsewhere(node: string): void {
  const results = new Map<string, Result>();
  let ended = 'the other process was not started';

  beforeAll(async () => {
    const child = await runIn(node);
    for (const result of child.results) results.set(`${result.suite}: ${result.name}`, result);
    ended = child.ended;
  }, 180_000);

  let suite = '';
  const test = (name: string) => {
    const key = `${suite}: ${name}`;
    it(name, () => {
      const result = results.get(key);
      assert.ok(result, `the test did not run: ${ended}`);
      assert.equal(result.ending, 'passed', result.error);
    });
  };
  const framework = {
    describe: (name: string, body: () => void) =>
      describe(name, () => {
        suite = name;
        body();
      }),
    it: Object.assign(test, { skip: (name: string) => it.skip(name, () => {}) }),
  };
  // Only its names are used here: the driver is in the other process.
  const absent = () => assert.fail('not in this process');
  const driver: Driver = { name: 'node:sqlite', open: absent, isOpen: absent };
  sqliteSuite(driver, framework);
}

/** Fails only where there is not one line of results; a test that did not run fails by itself. */
function runIn(node: string): Promise<{ readonly results: readonly Result[]; readonly ended: string }> {
  const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const args = [
    ...['--disable-warning=ExperimentalWarning', '--conditions=@lockkeeper/source', '--import', tsx],
    ...[`--test-reporter=${pathToFileURL(here('json-reporter.mjs')).href}`, here('node-test.ts')],
  ];
  return new Promise((resolve) => {
    execFile(node, args, { timeout: 170_000, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      const lines = stdout.split('\n').filter((line) => line.startsWith('{'));
      const results = lines.map((line) => JSON.parse(line) as Result);
      resolve({ results, ended: `${error?.message ?? 'it ended well'}\n${stderr}` });
    });
  });
}
