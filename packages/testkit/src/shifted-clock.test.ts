import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { canShiftClock } from './find-tools.ts';
import { type ShiftedClock, shiftedClock } from './shifted-clock.ts';

const DAY_MS = 86_400_000;

/** Prints its wall clock, and what a timer of 100 ms took by it and by the monotonic clock, once for each line. */
const WATCH = `
require('readline').createInterface({ input: process.stdin }).on('line', () => {
  const [wall, monotonic] = [Date.now(), performance.now()];
  setTimeout(() => {
    console.log(JSON.stringify([wall, Date.now() - wall, performance.now() - monotonic]));
  }, 100);
});`;

/** A process with that clock. */
function startWatch(clock: ShiftedClock) {
  const child = spawn(process.execPath, ['-e', WATCH], {
    env: { ...process.env, ...clock.env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout });
  return {
    /** How far ahead of ours its clock is, and how long it found 100 ms to be by either clock. */
    async look() {
      child.stdin.write('\n');
      const before = Date.now();
      const [line] = await once(lines, 'line');
      const [wall = 0, byWall = 0, byMonotonic = 0] = JSON.parse(`${line}`) as number[];
      return { offsetMs: wall - before, byWall, byMonotonic };
    },
    async end() {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

describe.skipIf(!canShiftClock())('a shifted clock', () => {
  it('is ahead or behind in every process that has it, steps while they run, and leaves timers alone', async () => {
    await using clock = shiftedClock({ offsetMs: DAY_MS });
    const [one, other] = [startWatch(clock), startWatch(clock)];
    const expectOffset = async (expected: number) => {
      expect(clock.offsetMs).toBe(expected);
      for (const watch of [one, other]) {
        const { offsetMs, byWall, byMonotonic } = await watch.look();
        // The question takes time to arrive, which counts as being ahead.
        expect(offsetMs).toBeGreaterThanOrEqual(expected - 2);
        expect(offsetMs).toBeLessThan(expected + 10_000);
        expect(byWall).toBeGreaterThanOrEqual(98);
        expect(byWall).toBeLessThan(10_000);
        expect(byMonotonic).toBeGreaterThanOrEqual(98);
        expect(byMonotonic).toBeLessThan(10_000);
      }
    };
    await expectOffset(DAY_MS);
    clock.shift(-DAY_MS);
    await expectOffset(-DAY_MS);
    clock.shift(0);
    await expectOffset(0);
    await Promise.all([one.end(), other.end()]);
    expect(() => clock.shift(Number.NaN)).toThrow('offsetMs is NaN');
  });
});
