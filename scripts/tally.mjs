// Counts of tests: a file of one JSON line for each part of a run, and the line that the whole run closes with.

import { existsSync } from 'node:fs';
import { appendFile, mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cacheDir } from './setup/workspace.mjs';

/**
 * @typedef {object} Tally
 * @property {number} passed
 * @property {number} failed
 * @property {number} skipped
 */

/**
 * Lends the path of a tally that does not exist yet.
 *
 * @template T
 * @param {(file: string) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withTally(work) {
  const file = join(cacheDir, 'tally', String(process.pid));
  await mkdir(dirname(file), { recursive: true });
  await rm(file, { force: true });
  try {
    return await work(file);
  } finally {
    await rm(file, { force: true });
  }
}

/**
 * @param {string} file
 * @param {Tally} part
 */
export const addTally = (file, part) => appendFile(file, `${JSON.stringify(part)}\n`);

/**
 * The sum of all parts; all zero when nothing was ever added.
 *
 * @param {string} file
 */
export async function readTally(file) {
  /** @type {Tally} */
  const sum = { passed: 0, failed: 0, skipped: 0 };
  const text = existsSync(file) ? await readFile(file, 'utf8') : '';
  for (const line of text.split('\n').filter(Boolean)) {
    /** @type {Tally} */
    const part = JSON.parse(line);
    sum.passed += part.passed;
    sum.failed += part.failed;
    sum.skipped += part.skipped;
  }
  return sum;
}

/** @param {Tally} tally */
export const closingLine = ({ passed, failed, skipped }) =>
  `${passed} passed, ${failed} failed, ${skipped} skipped`;
