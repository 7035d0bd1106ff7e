// The control groups of one run: a folder of its name in each hierarchy, and those of its containers below.

import { existsSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/sys/fs/cgroup';

/**
 * Lets paused containers go on. Where each controller has a hierarchy of its own, as in version 1, what is frozen
 * cannot even be killed.
 *
 * @param {string} name
 */
export function thaw(name) {
  for (const path of groupsOf(name)) {
    const state = join(path, 'freezer.state');
    if (existsSync(state)) writeFileSync(state, 'THAWED');
  }
}

/** @param {string} name @throws {Error} EBUSY while a process is left in one */
export function removeGroups(name) {
  for (const path of groupsOf(name)) rmdirSync(path);
}

/** Those inside come first. @param {string} name */
function groupsOf(name) {
  const roots = [ROOT, ...foldersIn(ROOT)].map((root) => join(root, name));
  return roots.filter(existsSync).flatMap((root) => [...inside(root), root]);
}

/** @param {string} path @returns {string[]} */
function inside(path) {
  return foldersIn(path).flatMap((folder) => [...inside(folder), folder]);
}

/** @param {string} path */
function foldersIn(path) {
  if (!existsSync(path)) return [];
  const entries = readdirSync(path, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(path, name));
}
