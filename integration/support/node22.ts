import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The first version in which `node:sqlite` needs no flag. */
const LOWEST = [22, 13] as const;

const CACHE = fileURLToPath(new URL('../../.cache/servers', import.meta.url));

/**
 * A Node that has `node:sqlite`: this one, the one that LOCKKEEPER_NODE22 names, or the one in the set-up's cache.
 * `undefined` where none is known for this platform: what needs it is skipped there.
 */
export function node22(): string | undefined {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > LOWEST[0] || (major === LOWEST[0] && minor >= LOWEST[1])) return process.execPath;
  const named = process.env['LOCKKEEPER_NODE22'];
  if (named) return named;
  const manifest = join(process.env['LOCKKEEPER_SERVER_CACHE'] ?? CACHE, 'manifest.json');
  if (!existsSync(manifest)) return undefined;
  const { node22: unpacked }: { node22?: { bin: string } } = JSON.parse(readFileSync(manifest, 'utf8'));
  return unpacked && resolve(dirname(manifest), unpacked.bin);
}
