// A Node of the next line, for tests of what the lowest one lacks (node:sqlite): unpacked from an npm package.

import { existsSync } from 'node:fs';
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { keep, kept, withScratchDir } from './cache.mjs';
import { CommandError } from './child.mjs';
import { unpackFromNpm } from './npm.mjs';
import { versionOf } from './programs.mjs';
import { say, step } from './say.mjs';
import { atLeast } from './versions.mjs';

/** Pinned: whoever raises it gets a new binary. */
const VERSION = '22.23.5';
const PLATFORMS = ['linux-x64', 'linux-arm64'];

/** Names a Node of one's own. */
const VARIABLE = 'LOCKKEEPER_NODE22';

/** @returns {Promise<{ version: string, bin: string } | undefined>} */
export async function node22Unpacked() {
  const found = (await kept('node')).find(({ version }) => version === VERSION);
  return found && { version: VERSION, bin: join(found.dir, 'bin', 'node') };
}

const isNewEnough = () => atLeast(process.versions.node, '22.13');

/** Whether there is something to do: nothing where this Node will do, or none can be had. */
export async function node22IsMissing() {
  if (isNewEnough() || process.env[VARIABLE] || (await node22Unpacked())) return false;
  const platform = `${process.platform}-${process.arch}`;
  if (PLATFORMS.includes(platform)) return true;
  say(`Node 22: none is known for ${platform}, and tests that need it are skipped; or set ${VARIABLE}`);
  return false;
}

/** @returns {Promise<string | undefined>} why it could not be had; undefined when it is there */
export async function fetchNode22() {
  const specifier = `node-${process.platform}-${process.arch}@${VERSION}`;
  try {
    await step('unpacking Node 22 from the npm registry into .cache/servers (about 45 MB)', () =>
      withScratchDir(async (scratch) => {
        const whole = await unpackFromNpm(specifier, scratch);
        const ours = join(scratch, 'ours');
        await mkdir(join(ours, 'bin'), { recursive: true });
        const program = join(whole, 'bin', 'node');
        if (!existsSync(program)) throw new CommandError(`${specifier} has no bin/node`);
        await cp(program, join(ours, 'bin', 'node'));
        const version = await versionOf(join(ours, 'bin', 'node'));
        if (version !== VERSION) throw new CommandError('the unpacked Node does not run on this machine');
        await keep(ours, `node-${version}`);
      }),
    );
    return undefined;
  } catch (error) {
    if (error instanceof CommandError) return error.message;
    throw error;
  }
}

/** @param {string} reason */
export const node22Instruction = (reason) =>
  [
    'There is no Node 22 in reach, which tests of node:sqlite run under. Do one of these:',
    '- run this command under Node 22 or newer',
    `- install one and set ${VARIABLE} to its program`,
    'What was tried:',
    reason,
  ].join('\n');
