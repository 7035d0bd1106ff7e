// The npm dependencies: installed by the pinned pnpm whenever the lock file is not the one they were installed
// from, and not touched otherwise.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError, output } from './child.mjs';
import { SetUpError, step } from './say.mjs';
import { pinnedPackageManager, root } from './workspace.mjs';

const stampPath = join(root, 'node_modules', '.lockkeeper-installed');

/** What the installed tree follows from: the lock file, the settings, and the machine's kind. */
function wantedStamp() {
  const hash = createHash('sha256');
  for (const file of ['pnpm-lock.yaml', 'pnpm-workspace.yaml']) hash.update(readFileSync(join(root, file)));
  return `${hash.digest('hex')} ${process.platform} ${process.arch}`;
}

export function dependenciesAreInstalled() {
  return existsSync(stampPath) && readFileSync(stampPath, 'utf8') === wantedStamp();
}

/**
 * Runs the pinned pnpm, fetched by npx unless it already has it.
 *
 * @param {readonly string[]} args
 */
export const pnpm = (args, cwd = root) =>
  output('npx', ['--yes', '--prefer-offline', pinnedPackageManager(), ...args], {
    cwd,
    env: { ...process.env, CI: 'true', npm_config_update_notifier: 'false' },
  });

export async function installDependencies() {
  const stamp = wantedStamp();
  try {
    await step(`installing the dependencies with ${pinnedPackageManager()}`, () =>
      pnpm(['install', '--frozen-lockfile', '--prefer-offline']),
    );
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const hint = error.message.includes('OUTDATED_LOCKFILE')
      ? `pnpm-lock.yaml does not fit every package.json: run npx ${pinnedPackageManager()} install`
      : 'Is the npm registry in reach (npm ping)?';
    throw new SetUpError(`The dependencies could not be installed. ${hint}\n${error.message}`, {
      cause: error,
    });
  }
  await writeFile(stampPath, stamp);
}
