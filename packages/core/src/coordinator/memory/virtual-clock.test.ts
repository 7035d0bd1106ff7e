import { afterEach, describe, expect, test, vi } from 'vitest';
import { sleep } from '../../clock.ts';
import { VirtualClock } from './virtual-clock.ts';

afterEach(() => {
  vi.useRealTimers();
});

describe('virtual clock', () => {
  test('stands still until advanced, and is then exactly there', async () => {
    const clock = new VirtualClock();
    expect(clock.now()).toBe(0);
    await clock.advance(1_500);
    await clock.advanceTo(1_500);
    await clock.advanceTo(2_000.25);
    expect(clock.now()).toBe(2_000.25);
  });

  test('fires timers in the order they are due, equal ones in the order they were set, each at its moment', async () => {
    const clock = new VirtualClock();
    const fired: [string, number][] = [];
    const set = (name: string, delayMs: number) =>
      clock.setTimer(delayMs, () => fired.push([name, clock.now()]));
    set('late', 30);
    set('first of two', 20);
    set('early', 10);
    set('second of two', 20);
    set('negative', -5);
    set('beyond', 31);
    await clock.advance(30);
    expect(fired).toEqual([
      ['negative', 0],
      ['early', 10],
      ['first of two', 20],
      ['second of two', 20],
      ['late', 30],
    ]);
    expect(clock.pendingTimers).toBe(1);
  });

  test('lets waiting code run between timers, so that what it sets on the way fires on the way', async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    const worker = async (name: string, stepMs: number) => {
      for (let step = 1; step <= 3; step++) {
        await sleep(clock, stepMs);
        for (let turn = 0; turn < 50; turn++) await Promise.resolve();
        seen.push(`${name}${step}@${clock.now()}`);
      }
    };
    void worker('a', 10);
    void worker('b', 15);
    await clock.advance(45);
    expect(seen).toEqual(['a1@10', 'b1@15', 'a2@20', 'b2@30', 'a3@30', 'b3@45']);
    expect(clock.pendingTimers).toBe(0);
  });

  test('runs what was started just before, so that its timers count from then', async () => {
    const clock = new VirtualClock();
    let woke: number | undefined;
    void (async () => {
      await Promise.resolve();
      await sleep(clock, 5);
      woke = clock.now();
    })();
    await clock.advance(5);
    expect(woke).toBe(5);
  });

  test('a cancelled timer is gone at once; cancelling twice, or after it fired, does nothing', async () => {
    const clock = new VirtualClock();
    let fired = 0;
    const kept = clock.setTimer(10, () => fired++);
    const twin = clock.setTimer(10, () => fired++);
    const cancelled = clock.setTimer(10, () => fired++);
    cancelled.cancel();
    cancelled.cancel();
    twin[Symbol.dispose]();
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(10);
    kept.cancel();
    expect([fired, clock.pendingTimers]).toEqual([1, 0]);
  });

  test('a timer cancelled by an earlier one of the same moment does not fire', async () => {
    const clock = new VirtualClock();
    let fired = false;
    clock.setTimer(10, () => second.cancel());
    const second = clock.setTimer(10, () => {
      fired = true;
    });
    await clock.advance(20);
    expect(fired).toBe(false);
  });

  test('advances that overlap run one after the other', async () => {
    const clock = new VirtualClock();
    const fired: number[] = [];
    for (const delayMs of [5, 10, 15]) clock.setTimer(delayMs, () => fired.push(clock.now()));
    await Promise.all([clock.advance(10), clock.advance(10)]);
    expect([clock.now(), fired]).toEqual([20, [5, 10, 15]]);
  });

  test('refuses to step back, and what is no time', async () => {
    const clock = new VirtualClock();
    await clock.advance(100);
    await expect(clock.advanceTo(99)).rejects.toThrow(
      new RangeError('virtual clock: cannot step back from 100 to 99'),
    );
    for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
      await expect(clock.advance(ms)).rejects.toThrow(`cannot advance by ${ms} ms`);
    }
    await expect(clock.advanceTo(Number.NaN)).rejects.toThrow(RangeError);
    await expect(clock.advanceTo(Number.POSITIVE_INFINITY)).rejects.toThrow(RangeError);
    expect(() => clock.setTimer(Number.NaN, () => {})).toThrow(RangeError);
    expect(() => clock.setWallTime(Number.NaN)).toThrow(RangeError);
    expect(() => new VirtualClock({ wallTime: Number.NaN })).toThrow(RangeError);
    expect([clock.now(), clock.pendingTimers]).toEqual([100, 0]);
    await clock.advance(1);
    expect(clock.now()).toBe(101);
  });

  test('passes on what a timer throws, stands at its moment, and can go on', async () => {
    const clock = new VirtualClock();
    let after = false;
    clock.setTimer(10, () => {
      throw new Error('from a timer');
    });
    clock.setTimer(20, () => {
      after = true;
    });
    await expect(clock.advance(30)).rejects.toThrow('from a timer');
    expect([clock.now(), after]).toEqual([10, false]);
    await clock.advance(10);
    expect(after).toBe(true);
  });

  test('the wall clock goes along, and can be stepped without moving time', async () => {
    const clock = new VirtualClock({ wallTime: 1_000_000 });
    await clock.advance(500);
    expect(clock.wallTime()).toBe(1_000_500);
    clock.setWallTime(0);
    expect([clock.wallTime(), clock.now()]).toEqual([0, 500]);
    await clock.advance(10);
    expect([clock.wallTime(), clock.now()]).toEqual([10, 510]);
    expect(new VirtualClock().wallTime()).toBe(Date.parse('2000-01-01T00:00:00Z'));
  });

  test('delays of any size wait their time', async () => {
    const clock = new VirtualClock();
    let fired = 0;
    clock.setTimer(2 ** 40, () => fired++);
    clock.setTimer(Number.POSITIVE_INFINITY, () => fired++);
    await clock.advance(2 ** 40 - 1);
    expect(fired).toBe(0);
    await clock.advance(1);
    expect(fired).toBe(1);
    expect(clock.pendingTimers).toBe(1);
  });

  test('is not stopped by fake timers', async () => {
    const clock = new VirtualClock();
    vi.useFakeTimers();
    let fired = false;
    clock.setTimer(10, () => {
      fired = true;
    });
    await clock.advance(10);
    expect(fired).toBe(true);
  });
});
