// Programs that are already on this machine, found by name and asked for their version.

import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { CommandError, output } from './child.mjs';
import { versionIn } from './versions.mjs';

/**
 * The first executable of that name in PATH, as a shell would find it, or in one of the folders `elsewhere`.
 *
 * @param {string} name
 * @param {readonly string[]} [elsewhere]
 * @returns {string | undefined}
 */
export function onPath(name, elsewhere = []) {
  for (const dir of [...(process.env['PATH'] ?? '').split(delimiter), ...elsewhere]) {
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
 * @param {{ libDir?: string | undefined }} [needs]  libraries of its own
 */
export async function versionOf(program, { libDir } = {}) {
  const paths = [libDir, process.env['LD_LIBRARY_PATH']].filter(Boolean).join(delimiter);
  const env = libDir === undefined ? process.env : { ...process.env, LD_LIBRARY_PATH: paths };
  try {
    return versionIn(await output(program, ['--version'], { env }));
  } catch (error) {
    if (error instanceof CommandError) return undefined;
    throw error;
  }
}
