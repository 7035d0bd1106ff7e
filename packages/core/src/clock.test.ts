import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { sleep, systemClock } from './clock.ts';

afterEach(() => void vi.useRealTimers());

describe('the system clock', () => {
  it('waits out delays that Node itself would fire at once', async () => {
    vi.useFakeTimers();
    let fired = 0;
    systemClock.setTimer(2 ** 31 + 1_000, () => (fired += 1));
    await vi.advanceTimersByTimeAsync(2 ** 31 + 999);
    expect(fired).toBe(0);
    await vi.advanceTimersByTimeAsync(2);
    expect(fired).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('cancels, also in the middle of a long delay', async () => {
    vi.useFakeTimers();
    const timer = systemClock.setTimer(2 ** 32, () => expect.unreachable());
    await vi.advanceTimersByTimeAsync(2 ** 31 + 1);
    timer.cancel();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('sleep', () => {
  it('ends with the signal, and leaves neither timer nor listener', async () => {
    vi.useFakeTimers();
    const abort = new AbortController();
    const slept = sleep(systemClock, 1_000, { signal: abort.signal });
    await vi.advanceTimersByTimeAsync(1_000);
    await slept;
    const aborted = sleep(systemClock, 1_000, { signal: abort.signal });
    abort.abort('why');
    await expect(aborted).rejects.toBe('why');
    await expect(sleep(systemClock, 1_000, { signal: abort.signal })).rejects.toBe('why');
    expect(vi.getTimerCount()).toBe(0);
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0);
  });
});
