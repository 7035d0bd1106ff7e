/** A stretch of one dimension, in pixels. */
export interface Room {
  readonly x: number;
  readonly end: number;
}

/** A label from `start` to `end`, above its mark at `x` and joined to it by a leader straight down. */
export interface EventLabel extends Room {
  readonly start: number;
}

const PADDING = 8;

/**
 * The row of each label, 0 nearest to the marks, so that no label touches another, nor the leader of
 * another. Labels come sorted by `x`: where one reaches over later marks it must be higher than all their
 * labels, whose leaders then begin below it.
 */
export function stackLabels(labels: readonly EventLabel[]): number[] {
  const rows: number[] = new Array(labels.length).fill(0);
  for (let i = labels.length - 1; i >= 0; i--) {
    const end = (labels[i]?.end ?? 0) + PADDING;
    for (let j = i + 1; j < labels.length && (labels[j]?.x ?? 0) < end; j++) {
      rows[i] = Math.max(rows[i] ?? 0, (rows[j] ?? 0) + 1);
    }
  }
  return rows;
}

/** The row of each label that has no leader: the first in which it touches none before it. */
export function stackBelow(labels: readonly Room[]): number[] {
  const ends: number[] = [];
  const rows = new Map<Room, number>();
  for (const label of labels.toSorted((a, b) => a.x - b.x)) {
    const free = ends.findIndex((end) => end + PADDING <= label.x);
    const row = free === -1 ? ends.length : free;
    ends[row] = label.end;
    rows.set(label, row);
  }
  return labels.map((label) => rows.get(label) ?? 0);
}

/** The widest part of `whole` that none of `taken` covers. */
export function freeRoom(whole: Room, taken: readonly Room[]): Room {
  let best: Room = { x: whole.x, end: whole.x };
  let x = whole.x;
  const offer = (end: number) => {
    if (end - x > best.end - best.x) best = { x, end };
  };
  for (const room of taken.toSorted((a, b) => a.x - b.x)) {
    if (room.end <= x || room.x >= whole.end) continue;
    offer(Math.min(room.x, whole.end));
    x = Math.max(x, room.end);
  }
  offer(whole.end);
  return best;
}
