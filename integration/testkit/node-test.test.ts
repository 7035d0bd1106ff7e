import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

it('the testkit works under node:test', async () => {
  const file = fileURLToPath(new URL('./late-write.node.ts', import.meta.url));
  const args = ['--conditions=@lockkeeper/source', '--import', 'tsx', '--test', '--test-reporter=tap', file];
  const run = await promisify(execFile)(process.execPath, args, {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
  });
  expect(run.stdout).toMatch(/^# pass 2$/m);
  expect(run.stdout).toMatch(/^# fail 0$/m);
});
