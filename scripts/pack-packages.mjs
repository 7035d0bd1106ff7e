// What users would install: every public package, built anew and packed.

import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { CommandError, output } from './setup/child.mjs';
import { pnpm } from './setup/dependencies.mjs';
import { root } from './setup/workspace.mjs';

const packagesDir = join(root, 'packages');

/**
 * @param {string} folder for the tarballs
 * @returns {Promise<readonly string[]>} their paths
 */
export async function packPackages(folder) {
  const dirs = await publicPackages();
  await build(dirs);
  await mkdir(folder, { recursive: true });
  // pnpm writes the versions in that stand in the catalog; npm would not.
  const filters = dirs.flatMap((dir) => ['--filter', `./${relative(root, dir)}`]);
  await pnpm(['--recursive', ...filters, 'pack', '--pack-destination', folder]);
  const tarballs = await readdir(folder);
  if (tarballs.length !== dirs.length) {
    throw new CommandError(`pnpm packed ${tarballs.length} of ${dirs.length} packages`);
  }
  return tarballs.map((name) => join(folder, name));
}

/** The folders of the packages that are published. */
async function publicPackages() {
  const dirs = [];
  for (const folder of await readdir(packagesDir)) {
    const dir = join(packagesDir, folder);
    const manifest = JSON.parse(await readFile(join(dir, 'package.json'), 'utf8'));
    if (!manifest.private) dirs.push(dir);
  }
  return dirs;
}

/**
 * Builds from nothing: a file whose source is gone would otherwise be packed.
 *
 * @param {readonly string[]} dirs
 */
async function build(dirs) {
  for (const dir of dirs) {
    for (const made of ['dist', 'tsconfig.tsbuildinfo']) {
      await rm(join(dir, made), { recursive: true, force: true });
    }
  }
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  await output(process.execPath, [tsc, '-b', ...dirs]);
}
