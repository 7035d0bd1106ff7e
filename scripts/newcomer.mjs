// A newcomer's test: examples/late-write in a folder of its own, with the packages as users would install them, from
// their tarballs, by npm. Whatever those lack shows here.

import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packPackages } from './pack-packages.mjs';
import { CommandError, dieOf, forwardSignals, Interrupted, output, run } from './setup/child.mjs';
import { root } from './setup/workspace.mjs';

/** @returns {Promise<import('./setup/child.mjs').Ended>} */
async function newcomer() {
  const scratch = await mkdtemp(join(tmpdir(), 'lockkeeper-newcomer-'));
  try {
    const tarballs = await packPackages(join(scratch, 'packed'));
    const project = join(scratch, 'project');
    await cp(join(root, 'examples', 'late-write'), project, { recursive: true });
    const install = ['install', '--no-audit', '--no-fund', '--prefer-offline', ...tarballs];
    await output('npm', install, {
      cwd: project,
      env: { ...process.env, npm_config_update_notifier: 'false' },
    });
    return await run('npm', ['test'], { cwd: project, stdio: ['ignore', 'inherit', 'inherit'] });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

forwardSignals();
try {
  const { code, signal } = await newcomer();
  if (signal !== null) dieOf(signal);
  else process.exitCode = code ?? 1;
} catch (error) {
  if (error instanceof Interrupted) dieOf(error.signal);
  else if (error instanceof CommandError) {
    console.error(error.message);
    process.exitCode = 1;
  } else throw error;
}
