/** Where moments stand on a stretched axis. */
export interface TimeScale {
  /** Milliseconds to pixels; piecewise linear, strictly rising. */
  x(ms: number): number;
}

export interface ScaleOptions {
  readonly left: number;
  /** Of the whole; it grows where the moments need more. */
  readonly width: number;
  /** The least distance between two moments. */
  readonly gap: number;
  /** The least distance between two moments of one lane. */
  readonly laneGap: number;
}

/**
 * Spreads the moments of all lanes over the width in proportion to time, except that none are closer together
 * than the gaps allow.
 */
export function timeScale(lanes: readonly (readonly number[])[], options: ScaleOptions): TimeScale {
  const { left, width } = options;
  const times = [...new Set(lanes.flat())].sort((a, b) => a - b);
  const sets = lanes.map((lane) => new Set(lane));
  const lanesAt = times.map((time) => sets.flatMap((lane, i) => (lane.has(time) ? [i] : [])));
  const place = (rate: number) => placesOf(times, lanesAt, rate, options);
  const rate = rateFor((rate) => (place(rate).at(-1) ?? left) - left, width);
  const places = place(rate);
  return {
    x: (ms) => {
      const after = firstFrom(times, ms);
      if (after === 0) return left - ((times[0] ?? ms) - ms) * rate;
      if (after === -1) return (places.at(-1) ?? left) + (ms - (times.at(-1) ?? ms)) * rate;
      const [t0, t1] = [times[after - 1] ?? ms, times[after] ?? ms];
      const [x0, x1] = [places[after - 1] ?? left, places[after] ?? left];
      return x0 + ((ms - t0) / (t1 - t0)) * (x1 - x0);
    },
  };
}

/** Where the first of these rising times stands that is not before `ms`; -1: nowhere. */
function firstFrom(times: readonly number[], ms: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? ms) < ms) low = middle + 1;
    else high = middle;
  }
  return low === times.length ? -1 : low;
}

function placesOf(
  times: readonly number[],
  lanesAt: readonly (readonly number[])[],
  rate: number,
  { left, gap, laneGap }: ScaleOptions,
): number[] {
  const lastOfLane = new Map<number, number>();
  const places: number[] = [];
  for (const [i, time] of times.entries()) {
    const before = places.at(-1);
    const lanes = lanesAt[i] ?? [];
    const place = Math.max(
      before === undefined ? left : before + Math.max(gap, rate * (time - (times[i - 1] ?? time))),
      ...lanes.map((lane) => (lastOfLane.get(lane) ?? Number.NEGATIVE_INFINITY) + laneGap),
    );
    places.push(place);
    for (const lane of lanes) lastOfLane.set(lane, place);
  }
  return places;
}

/** Pixels a millisecond, the most with which all stays within the width. Found by bisection. */
function rateFor(widthAt: (rate: number) => number, width: number): number {
  let [low, high] = [0, width];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (widthAt(middle) > width) high = middle;
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
