// What users would install: every public package is built anew, packed, and the tarball judged by publint and
// are-the-types-wrong. The packages are ESM only, so how CommonJS resolves them is not judged.

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { packPackages } from './pack-packages.mjs';
import { CommandError, dieOf, forwardSignals, Interrupted, output } from './setup/child.mjs';
import { root } from './setup/workspace.mjs';

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
  const scratch = await mkdtemp(join(tmpdir(), 'lockkeeper-packed-'));
  try {
    const verdicts = await Promise.all((await packPackages(scratch)).map(judge));
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
