/** How often it is noted that this process runs, and the longest gap between two notes that is no standstill. */
const BEAT_MS = 20;
const LONGEST_GAP_MS = 100;

let noted = performance.now();
let stoodMs = 0;

function note(): number {
  const now = performance.now();
  const gap = now - noted;
  if (gap > LONGEST_GAP_MS) stoodMs += gap - BEAT_MS;
  noted = now;
  return now - stoodMs;
}
setInterval(note, BEAT_MS).unref();

/**
 * Milliseconds that this process has run, for "within": a test process that is not scheduled for a second, as on a
 * busy machine, is no fault of what it measures. Never runs backwards; only differences mean anything.
 */
export const ownTime: () => number = note;

/** Milliseconds that this process has stood still so far. */
export function stoodStillMs(): number {
  note();
  return stoodMs;
}
