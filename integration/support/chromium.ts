import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A browser's program, and the folders that it needs where nothing is installed. */
export interface Chromium {
  readonly bin: string;
  readonly libDir?: string;
  readonly fontsDir?: string;
}

const CACHE = fileURLToPath(new URL('../../.cache/servers', import.meta.url));

/**
 * The one that LOCKKEEPER_CHROMIUM names, or the one in the set-up's cache. `undefined` where none is known for
 * this platform: what needs it is skipped there.
 */
export function chromium(): Chromium | undefined {
  const named = process.env['LOCKKEEPER_CHROMIUM'];
  if (named) return { bin: named };
  const manifest = join(process.env['LOCKKEEPER_SERVER_CACHE'] ?? CACHE, 'manifest.json');
  if (!existsSync(manifest)) return undefined;
  const { chromium: unpacked }: { chromium?: Required<Chromium> } = JSON.parse(
    readFileSync(manifest, 'utf8'),
  );
  if (unpacked === undefined) return undefined;
  const at = (path: string) => resolve(dirname(manifest), path);
  return { bin: at(unpacked.bin), libDir: at(unpacked.libDir), fontsDir: at(unpacked.fontsDir) };
}
