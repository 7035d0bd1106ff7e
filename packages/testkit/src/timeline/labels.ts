/** A stretch of one dimension, in pixels. */
export interface Room {
  readonly x: number;
  readonly end: number;
}

/** A label that wants to stand above its mark at `x`, on one side of it. */
export interface EventLabel {
  readonly x: number;
  readonly width: number;
  /** Where the text begins, from `x`, if it stands to the right. */
  readonly rightFrom: number;
  /** Where it ends, from `x`, if it stands to the left. */
  readonly leftUntil: number;
}

/** A label in its place, joined to its mark by a leader straight down. */
export interface PlacedLabel extends Room {
  /** Where its mark is. */
  readonly at: number;
  readonly side: 'left' | 'right';
  /** 0 is nearest to the marks. */
  readonly row: number;
}

/** Where something else passes. */
export interface Taken extends Room {
  /** How bad it is to stand there all the same; a row more is worth 10. */
  readonly cost: number;
  /** The mark that it belongs to, whose own label has made room for it. */
  readonly at?: number | undefined;
}

const PADDING = 8;

/**
 * Places labels, which come sorted by `x`, so that none touches another, nor the leader of another. Where many
 * are close together the first of them stand to the left and the others to the right, as on the sides of a
 * tent, which is half as high as a staircase. Within that they keep to `room` and out of `taken` if they can.
 */
export function placeLabels(
  labels: readonly EventLabel[],
  room: Room,
  taken: readonly Taken[],
): PlacedLabel[] {
  const placed: PlacedLabel[] = [];
  let free = room.x;
  for (const cluster of clustersOf(labels)) {
    const tents = Array.from({ length: cluster.length + 1 }, (_, split) => pitch(cluster, split));
    const cost = (tent: readonly PlacedLabel[]) => costOf(tent, { x: free, end: room.end }, taken);
    const best = tents.reduce((one, other) => (cost(other) < cost(one) ? other : one));
    placed.push(...best);
    free = Math.max(free, ...best.map(({ end }) => end + PADDING));
  }
  return placed;
}

/** Runs of labels of which each, standing to the right, would reach the mark of the next. */
function clustersOf(labels: readonly EventLabel[]): EventLabel[][] {
  const clusters: EventLabel[][] = [];
  let reach = Number.NEGATIVE_INFINITY;
  for (const label of labels) {
    if (label.x < reach) clusters.at(-1)?.push(label);
    else clusters.push([label]);
    reach = Math.max(reach, label.x + label.rightFrom + label.width + PADDING);
  }
  return clusters;
}

/** The first `split` labels to the left, rising, and the others to the right, falling. */
function pitch(cluster: readonly EventLabel[], split: number): PlacedLabel[] {
  const left = cluster.slice(0, split).map(({ x, width, leftUntil }) => {
    return { at: x, x: x + leftUntil - width, end: x + leftUntil };
  });
  const right = cluster.slice(split).map(({ x, width, rightFrom }) => {
    return { at: x, x: x + rightFrom, end: x + rightFrom + width };
  });
  const leftRows = rise(left, ({ x }, mark) => mark > x - PADDING);
  const rightRows = rise(right.toReversed(), ({ end }, mark) => mark < end + PADDING).reverse();
  return [
    ...left.map((room, i) => ({ ...room, side: 'left' as const, row: leftRows[i] ?? 0 })),
    ...right.map((room, i) => ({ ...room, side: 'right' as const, row: rightRows[i] ?? 0 })),
  ];
}

/** A label that reaches over marks is higher than all their labels, whose leaders then begin below it. */
function rise<L extends { readonly at: number }>(
  labels: readonly L[],
  reaches: (label: L, mark: number) => boolean,
): number[] {
  const rows: number[] = [];
  for (const [i, label] of labels.entries()) {
    const under = rows.filter((_, j) => reaches(label, labels[j]?.at ?? 0));
    rows[i] = Math.max(-1, ...under) + 1;
  }
  return rows;
}

function costOf(tent: readonly PlacedLabel[], room: Room, taken: readonly Taken[]): number {
  let cost = 0;
  for (const { at, x, end, row, side } of tent) {
    // To the left there may be somebody else's label; to the right the picture can grow.
    if (x < room.x && side === 'left') cost += 1_000_000;
    cost += Math.max(0, end - room.end);
    for (const other of taken) if (other.at !== at && x < other.end && other.x < end) cost += other.cost;
    cost += row + (side === 'left' ? 0.5 : 0);
  }
  return cost + 10 * Math.max(0, ...tent.map(({ row }) => row));
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
  const inside = taken.filter((room) => room.end > whole.x && room.x < whole.end);
  for (const room of inside.sort((a, b) => a.x - b.x)) {
    if (room.end <= x) continue;
    offer(Math.min(room.x, whole.end));
    x = Math.max(x, room.end);
  }
  offer(whole.end);
  return best;
}
