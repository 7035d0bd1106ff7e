import { chmodSync, copyFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { TestkitError } from './errors.ts';
import { findLibfaketime } from './find-tools.ts';
import { TemporaryFolder } from './owned-server.ts';

export interface ShiftedClockOptions {
  /** How far its wall clock is ahead of the real one at first; negative: behind. Default 0. */
  readonly offsetMs?: number | undefined;
}

/** A wall clock of its own for processes that are started with it. */
export interface ShiftedClock extends AsyncDisposable {
  /** Add these to the environment of a process when it is started. */
  readonly env: Readonly<Record<string, string>>;
  /** How far it is ahead of the real one now. */
  readonly offsetMs: number;
  /**
   * Steps it, in all processes that have it, from their next look on. Timers do not notice: they go by the
   * monotonic clock, which is left alone.
   * @throws {@link TestkitError} `invalid-option`
   */
  shift(offsetMs: number): void;
}

/** Some 30 years. */
const LONGEST_MS = 1e12;

/**
 * Makes a wall clock that is shifted against the real one, and can be stepped while processes run on it: by
 * libfaketime, so in programs that use the C library's clock, such as Node, PostgreSQL and MariaDB. etcd is a static
 * Go program and always sees the real time; Debian's Redis does not start with it, because of its allocator. Each look at the clock costs a read of a file.
 * @throws {@link TestkitError} `no-server` where there is no libfaketime, `invalid-option`
 */
export function shiftedClock({ offsetMs = 0 }: ShiftedClockOptions = {}): ShiftedClock {
  const library = findLibfaketime();
  checkOffset(offsetMs);
  const folder = new TemporaryFolder('lockkeeper-clock-');
  // PostgreSQL reads it under another user where we are root.
  chmodSync(folder.path, 0o755);
  const file = join(folder.path, 'offset');
  let current = offsetMs;
  const set = (ms: number) => {
    checkOffset(ms);
    // All at once for a reader: never half written.
    writeFileSync(`${file}.new`, `${ms < 0 ? '-' : '+'}${(Math.abs(ms) / 1_000).toFixed(3)}\n`);
    renameSync(`${file}.new`, file);
    current = ms;
  };
  set(offsetMs);
  return {
    env: {
      LD_PRELOAD: [loadable(library, folder.path), process.env['LD_PRELOAD']].filter(Boolean).join(':'),
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      NO_FAKE_STAT: '1',
    },
    get offsetMs() {
      return current;
    },
    shift: set,
    [Symbol.asyncDispose]: () => folder.remove(),
  };
}

/** LD_PRELOAD is a list whose items end at a space or a colon, so a library in such a folder is copied out of it. */
function loadable(library: string, folder: string): string {
  if (!/[ :]/.test(library)) return library;
  if (/[ :]/.test(folder)) {
    const why = 'neither it nor the library may have a space or a colon in its path';
    throw new TestkitError('invalid-option', `shiftedClock: the temporary folder is ${folder}; ${why}`);
  }
  const copy = join(folder, basename(library));
  copyFileSync(library, copy);
  return copy;
}

function checkOffset(offsetMs: number): void {
  if (Math.abs(offsetMs) <= LONGEST_MS) return;
  throw new TestkitError(
    'invalid-option',
    `offsetMs is ${offsetMs}; expected -${LONGEST_MS} to ${LONGEST_MS}`,
  );
}
