// Programs that are already on this machine, found by name and asked for their version.

import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { CommandError, output } from './child.mjs';
import { versionIn } from './versions.mjs';

/**
 * The first executable of that name in PATH, as a shell would find it.
 *
 * @param {string} name
 * @returns {string | undefined}
 */
export function onPath(name) {
  for (const dir of (process.env['PATH'] ?? '').split(delimiter)) {
    const candidate = join(dir, name);
    if (isAbsolute(dir) && isExecutable(candidate)) return candidate;
  }
  return undefined;
}

/** @param {string} path */
function isExecutable(path) {
  if (!existsSync(path)) return false;
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * The version a program reports; undefined when it does not run here.
 *
 * @param {string} program
 */
export async function versionOf(program) {
  try {
    return versionIn(await output(program, ['--version']));
  } catch (error) {
    if (error instanceof CommandError) return undefined;
    throw error;
  }
}
