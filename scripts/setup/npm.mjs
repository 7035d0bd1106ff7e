// Packages of the npm registry, unpacked without installing.

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError, output } from './child.mjs';

/**
 * @param {string} specifier
 * @param {string} scratch
 * @returns {Promise<string>} the folder of its content
 * @throws {CommandError} when it cannot be had
 */
export async function unpackFromNpm(specifier, scratch) {
  await output('npm', ['pack', '--prefer-offline', '--fetch-retries=1', '--loglevel=error', specifier], {
    cwd: scratch,
  });
  const archive = (await readdir(scratch)).find((file) => file.endsWith('.tgz'));
  if (!archive) throw new CommandError(`npm pack ${specifier} left no archive`);
  await output('tar', ['-xzf', archive], { cwd: scratch });
  return join(scratch, 'package');
}
