// What users would install: every public package is built anew, packed, and the tarball judged by publint and
// are-the-types-wrong. The packages are ESM only, so how CommonJS resolves them is not judged.

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { CommandError, dieOf, forwardSignals, Interrupted, output } from './setup/child.mjs';
import { pnpm } from './setup/dependencies.mjs';
import { root } from './setup/workspace.mjs';

const packagesDir = join(root, 'packages');

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

/**
 * @param {string} packageName
 * @param {string} program
 * @param {readonly string[]} args
 * @returns {Promise<boolean>} whether the program is content
 */
async function isContent(packageName, program, args) {
  const manifest = JSON.parse(
    await readFile(join(root, 'node_modules', packageName, 'package.json'), 'utf8'),
  );
  const script = join(root, 'node_modules', packageName, manifest.bin[program]);
  try {
    await output(process.execPath, [script, ...args]);
    return true;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    console.error(error.message);
    return false;
  }
}

/**
 * @param {string} tarball
 * @returns {Promise<boolean>}
 */
async function judge(tarball) {
  const verdicts = await Promise.all([
    isContent('publint', 'publint', ['run', tarball, '--strict']),
    isContent('@arethetypeswrong/cli', 'attw', [tarball, '--profile', 'esm-only', '--no-emoji']),
  ]);
  const ok = verdicts.every(Boolean);
  console.log(`${ok ? 'ok    ' : 'FAILED'} ${basename(tarball)}`);
  return ok;
}

async function check() {
  const dirs = await publicPackages();
  await build(dirs);
  const scratch = await mkdtemp(join(tmpdir(), 'lockkeeper-packed-'));
  try {
    const filters = dirs.flatMap((dir) => ['--filter', `./${relative(root, dir)}`]);
    await pnpm(['--recursive', ...filters, 'pack', '--pack-destination', scratch]);
    const tarballs = await readdir(scratch);
    if (tarballs.length !== dirs.length) {
      throw new CommandError(`pnpm packed ${tarballs.length} of ${dirs.length} packages`);
    }
    const verdicts = await Promise.all(tarballs.map((name) => judge(join(scratch, name))));
    return verdicts.every(Boolean);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

forwardSignals();
try {
  process.exitCode = (await check()) ? 0 : 1;
} catch (error) {
  if (error instanceof Interrupted) dieOf(error.signal);
  else if (error instanceof CommandError) {
    console.error(error.message);
    process.exitCode = 1;
  } else throw error;
}
