// What one play of a drill shows. Pure: the storage's own states decide, and what the workers were told.
import { compareTokens, FencingToken } from '@lockkeeper/fencing';

/**
 * - `protected`: the first worker paused there while it held the lock, the second took over and wrote, the first
 *   went on, and no update was lost and no late write accepted.
 * - `exposed`: an acknowledged update is missing from the storage, or a late write was accepted.
 * - `inconclusive`: neither was shown; `reason` says what was in the way.
 */
export type DrillVerdict = 'protected' | 'exposed' | 'inconclusive';

/** What the storage holds: the updates that are there (a list, or a text that has them in it), or how many. */
export type DrillState = readonly string[] | string | number;

/** How a worker's run ended. `ended`: its process did, before the run. */
export type RunOutcome = 'acknowledged' | 'rejected' | 'unknown' | 'ended' | 'timeout';

export interface RunFacts {
  readonly update: string;
  readonly outcome: RunOutcome;
  /** What it said, where it was not acknowledged. */
  readonly error?: string | undefined;
  /** The newest token it got of each lock. */
  readonly tokens: ReadonlyMap<string, string>;
}

export interface PlayFacts {
  /** Whether it held a lock when it paused. */
  readonly held: boolean;
  /** Whether the second was acknowledged while the first one paused. */
  readonly tookOver: boolean;
  readonly first: RunFacts;
  readonly second: RunFacts;
  /** The state just before the first went on, and the last one. */
  readonly before: DrillState;
  readonly after: DrillState;
}

export interface PlayVerdict {
  readonly verdict: DrillVerdict;
  /** One sentence. */
  readonly reason: string;
  /** Updates that were acknowledged and are not in the storage. Where it only counts: how many, in words. */
  readonly lostUpdates: readonly string[];
  /** Updates that the storage took from the first worker after the second, with the newer token, had written. */
  readonly staleWrites: readonly string[];
}

export function judge(facts: PlayFacts): PlayVerdict {
  const lostUpdates = lost(facts);
  const late = isLate(facts);
  const staleWrites = late && isNewer(facts) ? [facts.first.update] : [];
  const exposed = [
    ...(lostUpdates.length > 0 ? [`lost: ${lostUpdates.join(', ')}`] : []),
    ...(staleWrites.length > 0 ? [`accepted late: ${staleWrites.join(', ')}`] : []),
  ];
  if (exposed.length > 0) return { verdict: 'exposed', reason: exposed.join('; '), lostUpdates, staleWrites };
  const doubt = doubtOf(facts, late);
  const verdict = doubt === undefined ? 'protected' : 'inconclusive';
  return { verdict, reason: doubt ?? protectedReason(facts), lostUpdates, staleWrites };
}

/** Exposed by one point is exposed; protected is only what every point shows. */
export function overall(verdicts: readonly DrillVerdict[]): DrillVerdict {
  if (verdicts.includes('exposed')) return 'exposed';
  return verdicts.length > 0 && verdicts.every((one) => one === 'protected') ? 'protected' : 'inconclusive';
}

/** Which of the updates a state shows; `undefined` where it only counts them. */
export function updatesIn(state: DrillState, updates: readonly string[]): readonly string[] | undefined {
  return typeof state === 'number' ? undefined : updates.filter((update) => state.includes(update));
}

function lost({ first, second, after }: PlayFacts): string[] {
  const acknowledged = [first, second].filter(({ outcome }) => outcome === 'acknowledged');
  const updates = acknowledged.map(({ update }) => update);
  if (typeof after !== 'number') return updates.filter((update) => !after.includes(update));
  const missing = updates.length - after;
  return missing > 0 ? [`${missing} of ${updates.length} acknowledged updates`] : [];
}

/** Whether the storage took an update of the first after the second had its own acknowledged. */
function isLate({ tookOver, first, before, after }: PlayFacts): boolean {
  if (!tookOver) return false;
  if (typeof before === 'number' || typeof after === 'number') return Number(after) > Number(before);
  return after.includes(first.update) && !before.includes(first.update);
}

/** Whether the second had got the lock after the first: one that acquired once more after its pause is not late. */
function isNewer({ first, second }: PlayFacts): boolean | undefined {
  const orders = [...first.tokens].flatMap(([lock, token]) => {
    const other = second.tokens.get(lock);
    return other === undefined ? [] : [orderOf(token, other)];
  });
  return orders.length === 0 ? undefined : orders.includes('below');
}

function orderOf(token: string, other: string) {
  try {
    return compareTokens(FencingToken.parse(token), FencingToken.parse(other));
  } catch {
    // The tokens of semaphores have no order across slots.
    return 'foreign';
  }
}

function doubtOf(facts: PlayFacts, late: boolean): string | undefined {
  const { first, second } = facts;
  if (!facts.held) return 'the first worker held no lock of Lockkeeper when it paused there';
  if (second.outcome !== 'acknowledged') return `the second worker's update was not made: ${ending(second)}`;
  if (second.tokens.size === 0) return 'the second worker wrote without a lock of Lockkeeper';
  if (first.outcome === 'ended' || first.outcome === 'timeout') {
    return `the first worker did not come to its end: ${ending(first)}`;
  }
  if (late && isNewer(facts) === undefined) return 'the two workers took no lock in common';
  return undefined;
}

function protectedReason({ first, tookOver, after }: PlayFacts): string {
  const wait = tookOver ? '' : 'the second worker had to wait until the first went on; ';
  if (first.outcome === 'acknowledged') return `${wait}both updates are there`;
  const isThere = typeof after !== 'number' && after.includes(first.update);
  return `${wait}the first worker's update is ${isThere ? '' : 'not '}there: ${ending(first)}`;
}

function ending({ outcome, error }: RunFacts): string {
  return error === undefined ? outcome : `${outcome}, ${error}`;
}
