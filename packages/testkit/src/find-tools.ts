import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { TestkitError } from './errors.ts';
import { onPath, readManifest } from './find-server.ts';

/**
 * Programs that make a fault possible. Not every machine has them; whatever the route to servers is, an installed
 * one comes first, then the one that the set-up unpacked.
 */
const TOOLS = {
  strace: { install: 'Debian, Ubuntu: apt install strace' },
  faketime: { install: 'Debian, Ubuntu: apt install faketime' },
} as const;

/** Where the packages of distributions have libfaketime: one folder an architecture, or none. */
const LIBRARY_FOLDERS = ['/usr/lib', '/usr/local/lib', '/usr/lib64'];
const FAKETIME_LIBRARY = 'libfaketimeMT.so.1';

/** Whether `slowDisk()` has what it needs, as far as one can tell: a container may refuse to trace all the same. */
export function canSlowDisk(): boolean {
  return strace() !== undefined && (process.getuid?.() === 0 || mayTrace());
}

/** Where the kernel's Yama is, processes may be bound to trace only what they started. */
function mayTrace(): boolean {
  const file = '/proc/sys/kernel/yama/ptrace_scope';
  return !existsSync(file) || readFileSync(file, 'latin1').trim() === '0';
}

/** Whether `shiftedClock()` has what it needs. */
export function canShiftClock(): boolean {
  return libfaketime() !== undefined;
}

/** @throws {@link TestkitError} `no-server` */
export function findStrace(): { readonly bin: string; readonly libDir: string | undefined } {
  return strace() ?? missing('strace');
}

/** @returns the library to preload. @throws {@link TestkitError} `no-server` */
export function findLibfaketime(): string {
  return libfaketime() ?? missing('faketime');
}

function strace() {
  if (process.platform !== 'linux') return undefined;
  const installed = onPath('strace');
  return installed === undefined ? unpacked('strace') : { bin: installed, libDir: undefined };
}

function libfaketime(): string | undefined {
  if (process.platform !== 'linux') return undefined;
  const installed = LIBRARY_FOLDERS.filter((folder) => existsSync(folder))
    .flatMap((folder) => [folder, ...readdirSync(folder).map((name) => join(folder, name))])
    .map((folder) => join(folder, 'faketime', FAKETIME_LIBRARY))
    .find((file) => existsSync(file));
  if (installed !== undefined) return installed;
  const library = join(unpacked('faketime')?.libDir ?? '/nonexistent', 'faketime', FAKETIME_LIBRARY);
  return existsSync(library) ? library : undefined;
}

function unpacked(tool: keyof typeof TOOLS) {
  const { folder, manifest } = readManifest();
  const found = manifest[tool]?.[0];
  return found && { bin: resolve(folder, found.bin), libDir: resolve(folder, found.libDir) };
}

function missing(tool: keyof typeof TOOLS): never {
  const { install } = TOOLS[tool];
  const where = process.platform === 'linux' ? `no ${tool} in reach (${install})` : `${tool} needs Linux`;
  throw new TestkitError('no-server', where);
}
