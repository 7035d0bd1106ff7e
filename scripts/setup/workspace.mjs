// Where the workspace is and which versions it pins; both are read, never repeated, by the other scripts.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the checkout. */
export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** Everything a run writes that is worth keeping. Ignored by git. */
export const cacheDir = join(root, '.cache');

/** @returns {{ packageManager: string, engines: { node: string } }} */
const manifest = () => JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** The package manager as `npx` wants it, for example `pnpm@10.0.0`. */
export const pinnedPackageManager = () => manifest().packageManager;

/** The lowest Node version the workspace runs on, for example `20.19`. */
export const lowestNode = () => manifest().engines.node.replace(/^>=\s*/, '');

/**
 * The version of a package in the workspace's catalog.
 *
 * @param {string} name
 * @returns {string | undefined}
 */
export function catalogVersion(name) {
  const catalog = readFileSync(join(root, 'pnpm-workspace.yaml'), 'utf8');
  for (const line of catalog.split('\n')) {
    const entry = /^ {2}['"]?([^'":]+)['"]?: (\S+)$/.exec(line);
    if (entry?.[1] === name) return entry[2];
  }
  return undefined;
}
