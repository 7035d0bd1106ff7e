import type { LossCause } from '../errors.ts';

/**
 * The deadline rules of a lease as a pure function: no clock, no timer, no coordinator. Times are
 * milliseconds of one monotonic clock.
 *
 * What always holds: a live lease's deadline lies at least the margin before the earliest moment at which
 * the server may end the lease, because it counts from before the request was sent; and a lost lease stays
 * lost, whatever arrives later.
 */
export type LeaseState =
  | {
      readonly phase: 'live';
      /** `suspect`: a renewal is overdue; still safe until the deadline. */
      readonly standing: 'held' | 'suspect';
      /** From this moment on (equality included) the lease counts as lost. */
      readonly deadline: number;
      /** When the request of the last confirmed grant or renewal was sent. */
      readonly confirmedAt: number;
      readonly ttlMs: number;
    }
  | {
      readonly phase: 'lost';
      readonly cause: LossCause;
      readonly lostAt: number;
      readonly confirmedAt: number;
      readonly ttlMs: number;
    };

export type LeaseEvent =
  /** The server confirmed the lease. `ttlMs` 0: it does not know it any more. */
  | { readonly type: 'confirmed'; readonly sentAt: number; readonly ttlMs: number; readonly now: number }
  | { readonly type: 'renewal-failed'; readonly now: number }
  /** Somebody looked at the clock. */
  | { readonly type: 'looked'; readonly now: number }
  | { readonly type: 'ended'; readonly cause: LossCause; readonly now: number };

/** What just changed, for the driver to act on; `undefined`: nothing. */
export type LeaseChange = 'lost' | 'suspect' | 'recovered' | undefined;

export interface LeaseStep {
  readonly state: LeaseState;
  readonly change: LeaseChange;
}

/** `undefined`: the larger of 500 ms and a tenth of the TTL. Never so large that nothing is left. */
export function marginFor(ttlMs: number, marginMs: number | undefined): number {
  return Math.min(marginMs ?? Math.max(500, ttlMs / 10), ttlMs / 2);
}

/** The state after a grant. */
export function grantedLease(sentAt: number, ttlMs: number, marginMs: number | undefined): LeaseState {
  const deadline = sentAt + ttlMs - marginFor(ttlMs, marginMs);
  return { phase: 'live', standing: 'held', deadline, confirmedAt: sentAt, ttlMs };
}

export function stepLease(state: LeaseState, event: LeaseEvent, marginMs: number | undefined): LeaseStep {
  if (state.phase === 'lost') return { state, change: undefined };
  if (event.now >= state.deadline) return lost(state, overdueCause(event), event.now);
  switch (event.type) {
    case 'looked':
      return { state, change: undefined };
    case 'ended':
      return lost(state, event.cause, event.now);
    case 'renewal-failed':
      return state.standing === 'suspect'
        ? { state, change: undefined }
        : { state: { ...state, standing: 'suspect' }, change: 'suspect' };
    case 'confirmed': {
      // Before the deadline the lease cannot have run out at the server: somebody ended it.
      if (event.ttlMs <= 0) return lost(state, 'revoked', event.now);
      const deadline = event.sentAt + event.ttlMs - marginFor(event.ttlMs, marginMs);
      const renewed: LeaseState = {
        phase: 'live',
        standing: 'held',
        deadline: Math.max(state.deadline, deadline),
        confirmedAt: Math.max(state.confirmedAt, event.sentAt),
        ttlMs: event.ttlMs,
      };
      return { state: renewed, change: state.standing === 'suspect' ? 'recovered' : undefined };
    }
  }
}

function overdueCause(event: LeaseEvent): LossCause {
  return event.type === 'confirmed' && event.ttlMs <= 0 ? 'expired' : 'unconfirmed';
}

function lost(state: LeaseState, cause: LossCause, now: number): LeaseStep {
  const { confirmedAt, ttlMs } = state;
  return { state: { phase: 'lost', cause, lostAt: now, confirmedAt, ttlMs }, change: 'lost' };
}
