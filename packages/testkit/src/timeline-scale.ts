/** Where moments stand on a stretched axis. */
export interface TimeScale {
  /** Milliseconds to pixels; piecewise linear, strictly rising. */
  x(ms: number): number;
}

/**
 * Spreads moments over `width` pixels in proportion to time, except that two of them, 0.1 ms or more apart,
 * are never closer than `gap`. The width grows where there are too many.
 */
export function timeScale(moments: readonly number[], left: number, width: number, gap: number): TimeScale {
  const times = [...new Set(moments.map((ms) => Math.round(ms * 10) / 10))].sort((a, b) => a - b);
  const steps = times.slice(1).map((time, i) => time - (times[i] ?? time));
  const rate = rateFor(steps, width, gap);
  const positions = [left];
  for (const step of steps) positions.push((positions.at(-1) ?? left) + Math.max(gap, rate * step));
  return {
    x: (ms) => {
      const after = times.findIndex((time) => time >= ms);
      if (after === 0) return left - ((times[0] ?? ms) - ms) * rate;
      if (after === -1) return (positions.at(-1) ?? left) + (ms - (times.at(-1) ?? ms)) * rate;
      const [t0, t1] = [times[after - 1] ?? ms, times[after] ?? ms];
      const [x0, x1] = [positions[after - 1] ?? left, positions[after] ?? left];
      return x0 + ((ms - t0) / (t1 - t0)) * (x1 - x0);
    },
  };
}

/** Pixels a millisecond, such that the steps, none below the gap, fill the width. Found by bisection. */
function rateFor(steps: readonly number[], width: number, gap: number): number {
  const total = (rate: number) => steps.reduce((sum, step) => sum + Math.max(gap, rate * step), 0);
  let [low, high] = [0, width];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (total(middle) > width) high = middle;
    else low = middle;
  }
  return low;
}

/** Round moments for the axis, at most a dozen of them. */
export function tickTimes(
  fromMs: number,
  toMs: number,
): { readonly times: number[]; readonly stepMs: number } {
  const span = Math.max(toMs - fromMs, 1);
  const power = 10 ** Math.floor(Math.log10(span / 10));
  const stepMs = power * ([1, 2, 5, 10].find((factor) => span / (factor * power) <= 12) ?? 10);
  const times: number[] = [];
  for (let time = Math.ceil(fromMs / stepMs) * stepMs; time <= toMs; time += stepMs) times.push(time);
  return { times, stepMs };
}
