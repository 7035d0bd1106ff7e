import type { LossCause } from '../errors.ts';

/**
 * The deadline rules of a lease as a pure function: no clock, no timer, no coordinator. `now` and `sentAt`
 * are milliseconds of one monotonic clock, which alone decides; `wall` is wall time, which can only raise
 * doubt.
 *
 * What always holds: a live lease's deadline lies at least the margin before the earliest moment at which
 * the server may end the lease, because it counts from before the request was sent; and a lost lease stays
 * lost, whatever arrives later.
 */
export type LeaseState =
  | {
      readonly phase: 'live';
      /** From this moment on (equality included) the lease counts as lost. */
      readonly deadline: number;
      /** When the request of the last confirmed grant or renewal was sent. */
      readonly confirmedAt: number;
      readonly ttlMs: number;
      readonly doubt: Doubt | undefined;
      /** Wall minus monotonic time, the least since the last confirmation. */
      readonly wallOffset: number;
    }
  | {
      readonly phase: 'lost';
      readonly cause: LossCause;
      readonly lostAt: number;
      readonly confirmedAt: number;
      readonly ttlMs: number;
    };

/**
 * Why a live lease is suspect. `renewal`: one is overdue, or (`refused`) etcd does not take our credentials;
 * the deadline still holds. `clock`: wall time ran
 * ahead of the monotonic clock, which stands still while a machine is suspended; the deadline may have
 * passed without our noticing, so only a renewal sent after `since` can clear it.
 */
export type Doubt =
  | { readonly of: 'renewal'; readonly refused: boolean }
  | { readonly of: 'clock'; readonly since: number };

export type LeaseEvent = { readonly now: number; readonly wall: number } & (
  | /** The server confirmed the lease. `ttlMs` 0: it does not know it any more. */
  { readonly type: 'confirmed'; readonly sentAt: number; readonly ttlMs: number }
  /** `refused`: by etcd, for our credentials. */
  | { readonly type: 'renewal-failed'; readonly sentAt: number; readonly refused: boolean }
  /** Somebody looked at the clock. */
  | { readonly type: 'looked' }
  | { readonly type: 'ended'; readonly cause: LossCause }
);

/** What just changed, for the driver to act on; `undefined`: nothing. */
export type LeaseChange = 'lost' | 'suspect' | 'recovered' | undefined;

export interface LeaseStep {
  readonly state: LeaseState;
  readonly change: LeaseChange;
}

type Live = Extract<LeaseState, { phase: 'live' }>;

/** `undefined`: the larger of 500 ms and a tenth of the TTL. Never so large that nothing is left. */
export function marginFor(ttlMs: number, marginMs: number | undefined): number {
  return Math.min(marginMs ?? Math.max(500, ttlMs / 10), ttlMs / 2);
}

/** The state after a grant. `wallAtSend`: wall time when its request was sent. */
export function grantedLease(
  sentAt: number,
  wallAtSend: number,
  ttlMs: number,
  marginMs: number | undefined,
): LeaseState {
  const deadline = sentAt + ttlMs - marginFor(ttlMs, marginMs);
  const wallOffset = wallAtSend - sentAt;
  return { phase: 'live', deadline, confirmedAt: sentAt, ttlMs, doubt: undefined, wallOffset };
}

export function stepLease(before: LeaseState, event: LeaseEvent, marginMs: number | undefined): LeaseStep {
  if (before.phase === 'lost') return { state: before, change: undefined };
  if (event.now >= before.deadline) return lost(before, overdueCause(before, event), event.now);
  if (event.type === 'ended') return lost(before, event.cause, event.now);
  const state = compareClocks(before, event, marginMs);
  const doubted: LeaseChange =
    state.doubt !== undefined && before.doubt === undefined ? 'suspect' : undefined;
  switch (event.type) {
    case 'looked':
      return { state, change: doubted };
    case 'renewal-failed':
      return renewalFailed(state, event, doubted);
    case 'confirmed':
      return confirmed(state, event, marginMs, doubted);
  }
}

/** Whether a look at this moment would leave the state as it is. */
export function isQuiet(state: LeaseState, now: number, wall: number, marginMs: number | undefined): boolean {
  if (state.phase === 'lost') return true;
  const ahead = wall - now - state.wallOffset;
  return now < state.deadline && ahead >= 0 && ahead <= toleratedAhead(state, marginMs);
}

/** Whether the lease may still be acted on: live, and no doubt about the clock. */
export function isSafe(state: LeaseState): boolean {
  return state.phase === 'live' && state.doubt?.of !== 'clock';
}

/** How far wall time may run ahead of the monotonic clock before that is a doubt. */
function toleratedAhead({ ttlMs }: Live, marginMs: number | undefined): number {
  return Math.max(250, marginFor(ttlMs, marginMs) / 2);
}

/** A wall clock set back only lowers the mark, so that a suspension after it is still seen. */
function compareClocks(state: Live, event: LeaseEvent, marginMs: number | undefined): Live {
  const offset = event.wall - event.now;
  const tolerated = toleratedAhead(state, marginMs);
  if (offset - state.wallOffset > tolerated) {
    return { ...state, wallOffset: offset, doubt: { of: 'clock', since: event.now } };
  }
  return offset < state.wallOffset ? { ...state, wallOffset: offset } : state;
}

function renewalFailed(
  state: Live,
  { sentAt, refused, now }: { readonly sentAt: number; readonly refused: boolean; readonly now: number },
  doubted: LeaseChange,
): LeaseStep {
  if (state.doubt?.of === 'clock') {
    return sentAt >= state.doubt.since ? lost(state, 'unconfirmed', now) : { state, change: doubted };
  }
  const change = state.doubt === undefined ? 'suspect' : undefined;
  return { state: { ...state, doubt: { of: 'renewal', refused } }, change };
}

function confirmed(
  state: Live,
  event: LeaseEvent & { readonly sentAt: number; readonly ttlMs: number },
  marginMs: number | undefined,
  doubted: LeaseChange,
): LeaseStep {
  // Before the deadline the lease cannot have run out at the server: somebody ended it.
  if (event.ttlMs <= 0) return lost(state, 'revoked', event.now);
  // Sent before the clock came into doubt, which may be only now.
  const before = doubted !== undefined || (state.doubt?.of === 'clock' && event.sentAt < state.doubt.since);
  if (before) return { state, change: doubted };
  const deadline = event.sentAt + event.ttlMs - marginFor(event.ttlMs, marginMs);
  const renewed: LeaseState = {
    phase: 'live',
    deadline: Math.max(state.deadline, deadline),
    confirmedAt: Math.max(state.confirmedAt, event.sentAt),
    ttlMs: event.ttlMs,
    doubt: undefined,
    wallOffset: event.wall - event.now,
  };
  return { state: renewed, change: state.doubt === undefined ? undefined : 'recovered' };
}

function overdueCause(state: Live, event: LeaseEvent): LossCause {
  if (event.type === 'confirmed' && event.ttlMs <= 0) return 'expired';
  return state.doubt?.of === 'renewal' && state.doubt.refused ? 'unauthorized' : 'unconfirmed';
}

function lost(state: Live, cause: LossCause, now: number): LeaseStep {
  const { confirmedAt, ttlMs } = state;
  return { state: { phase: 'lost', cause, lostAt: now, confirmedAt, ttlMs }, change: 'lost' };
}
