import { describe, expect, it } from 'vitest';
import type { LossCause } from '../errors.ts';
import {
  grantedLease,
  isQuiet,
  isSafe,
  type LeaseEvent,
  type LeaseState,
  marginFor,
  stepLease,
} from './lease-machine.ts';

/** Grant sent at 1,000 (wall 501,000) with a TTL of 10 s and a margin of 1 s: the deadline is 10,000. */
const MARGIN = 1_000;
const WALL = 500_000;
const granted = grantedLease(1_000, WALL + 1_000, 10_000, MARGIN);

function run(...events: LeaseEvent[]): { state: LeaseState; changes: string[] } {
  let state = granted;
  const changes: string[] = [];
  for (const event of events) {
    const step = stepLease(state, event, MARGIN);
    state = step.state;
    if (step.change !== undefined) changes.push(`${step.change}@${event.now}`);
  }
  return { state, changes };
}

/** `ahead`: how far wall time has run ahead of the monotonic clock. */
const at = (now: number, ahead = 0) => ({ now, wall: WALL + now + ahead });
const looked = (now: number, ahead?: number): LeaseEvent => ({ type: 'looked', ...at(now, ahead) });
const failed = (now: number, sentAt = now - 100, ahead?: number): LeaseEvent => ({
  type: 'renewal-failed',
  sentAt,
  refused: false,
  ...at(now, ahead),
});
const confirmed = (sentAt: number, now: number, ttlMs = 10_000, ahead?: number): LeaseEvent => ({
  type: 'confirmed',
  sentAt,
  ttlMs,
  ...at(now, ahead),
});
const ended = (now: number, cause: LossCause): LeaseEvent => ({ type: 'ended', cause, ...at(now) });

describe('the lease machine', () => {
  it('counts the deadline from before the request was sent, never from the reply', () => {
    expect(granted).toMatchObject({ phase: 'live', doubt: undefined, deadline: 10_000 });
    expect(run(confirmed(4_000, 8_999)).state).toMatchObject({ deadline: 13_000, confirmedAt: 4_000 });
  });

  it('holds up to the deadline and not at it: equality is expired', () => {
    expect(run(looked(9_999.9)).state.phase).toBe('live');
    expect(run(looked(10_000))).toMatchObject({
      state: { phase: 'lost', cause: 'unconfirmed' },
      changes: ['lost@10000'],
    });
  });

  it('is not revived by a confirmation that arrives at the deadline or after it', () => {
    expect(run(confirmed(4_000, 10_000)).state).toMatchObject({ phase: 'lost', cause: 'unconfirmed' });
    expect(run(looked(10_000), confirmed(9_000, 10_001)).changes).toEqual(['lost@10000']);
  });

  it('never moves the deadline back, whatever order the replies come in', () => {
    expect(run(confirmed(5_000, 5_100), confirmed(3_000, 5_200)).state).toMatchObject({
      deadline: 14_000,
      confirmedAt: 5_000,
    });
  });

  it('is suspect after a failed renewal, once, and held again after a good one', () => {
    expect(run(failed(4_000), failed(5_000), confirmed(6_000, 6_100))).toMatchObject({
      state: { phase: 'live', doubt: undefined },
      changes: ['suspect@4000', 'recovered@6100'],
    });
    expect(run(failed(4_000), looked(9_999)).state).toMatchObject({
      phase: 'live',
      doubt: { of: 'renewal' },
    });
    expect(run(failed(10_000)).state).toMatchObject({ phase: 'lost', cause: 'unconfirmed' });
  });

  it('names refused credentials as the cause where they were the last word', () => {
    const refusedAt = (now: number): LeaseEvent => ({
      type: 'renewal-failed',
      sentAt: now,
      refused: true,
      ...at(now),
    });
    expect(run(failed(4_000), refusedAt(5_000), looked(10_000)).state).toMatchObject({
      cause: 'unauthorized',
    });
    expect(run(refusedAt(4_000), failed(5_000), looked(10_000)).state).toMatchObject({
      cause: 'unconfirmed',
    });
    expect(run(refusedAt(4_000), confirmed(5_000, 5_100), looked(14_000)).state).toMatchObject({
      cause: 'unconfirmed',
    });
  });

  it('tells a lease that was revoked from one that ran out', () => {
    expect(run(confirmed(4_000, 4_100, 0)).state).toMatchObject({ phase: 'lost', cause: 'revoked' });
    expect(run(confirmed(4_000, 10_000, 0)).state).toMatchObject({ phase: 'lost', cause: 'expired' });
  });

  it('stays lost with its first cause', () => {
    const { state, changes } = run(
      ended(2_000, 'history-regressed'),
      ended(3_000, 'closed'),
      confirmed(3_000, 3_100),
      looked(20_000),
    );
    expect(state).toMatchObject({ phase: 'lost', cause: 'history-regressed', lostAt: 2_000 });
    expect(changes).toEqual(['lost@2000']);
  });

  it('follows the TTL that the server grants, not the one that was asked for', () => {
    expect(run(confirmed(4_000, 4_100, 2_000), confirmed(9_500, 9_600, 2_000)).state).toMatchObject({
      deadline: 10_500,
      ttlMs: 2_000,
    });
  });

  it.each([
    [10_000, undefined, 1_000],
    [2_000, undefined, 500],
    [60_000, undefined, 6_000],
    [2_000, 0, 0],
    [2_000, 1_900, 1_000],
  ])('keeps a margin: TTL %d, asked for %s, gives %d', (ttlMs, asked, margin) => {
    expect(marginFor(ttlMs, asked)).toBe(margin);
  });

  describe('when wall time runs ahead of the monotonic clock, as over a suspension', () => {
    it('nothing is safe until a renewal confirms the lease, sent after that showed', () => {
      const doubt = run(looked(3_000, 30_000));
      expect(doubt).toMatchObject({
        state: { phase: 'live', doubt: { of: 'clock', since: 3_000 } },
        changes: ['suspect@3000'],
      });
      expect(isSafe(doubt.state)).toBe(false);
      // Sent before the machine slept: the server may have answered before it, too.
      const early = run(looked(3_000, 30_000), confirmed(2_900, 3_050, 10_000, 30_000));
      expect(isSafe(early.state)).toBe(false);
      const late = run(looked(3_000, 30_000), confirmed(3_100, 3_200, 10_000, 30_000));
      expect(isSafe(late.state)).toBe(true);
      expect(late).toMatchObject({
        state: { deadline: 12_100 },
        changes: ['suspect@3000', 'recovered@3200'],
      });
    });

    it('a reply that comes first after the jump proves nothing either', () => {
      expect(run(confirmed(2_900, 3_000, 10_000, 30_000))).toMatchObject({
        state: { deadline: 10_000, doubt: { of: 'clock', since: 3_000 } },
        changes: ['suspect@3000'],
      });
    });

    it('one failed renewal that was sent after the jump ends it; one sent before says nothing', () => {
      expect(run(looked(3_000, 30_000), failed(3_100, 2_900, 30_000)).state.phase).toBe('live');
      expect(run(looked(3_000, 30_000), failed(3_300, 3_100, 30_000)).state).toMatchObject({
        phase: 'lost',
        cause: 'unconfirmed',
      });
    });

    it('it is lost at its monotonic deadline all the same', () => {
      expect(run(looked(3_000, 30_000), looked(10_000, 30_000)).state).toMatchObject({ phase: 'lost' });
    });

    it('small steps are the daily work of a time daemon', () => {
      expect(run(looked(3_000, 499), looked(4_000, -60_000), looked(5_000, -60_000)).changes).toEqual([]);
    });

    it('a suspension is seen also after the wall clock was set back', () => {
      expect(run(looked(3_000, -3_600_000), looked(4_000, -3_600_000 + 30_000)).changes).toEqual([
        'suspect@4000',
      ]);
    });
  });

  it('is quiet exactly where a look changes nothing', () => {
    const states = [
      granted,
      run(failed(3_000)).state,
      run(looked(3_000, 900)).state,
      run(looked(3_000, -700)).state,
      run(ended(3_000, 'closed')).state,
    ];
    for (const state of states) {
      for (const now of [3_000, 9_999, 10_000, 12_000]) {
        for (const ahead of [-1_000, -700, -1, 0, 1, 500, 501, 900, 2_000]) {
          const { state: after, change } = stepLease(state, looked(now, ahead), MARGIN);
          const { wall } = at(now, ahead);
          expect(isQuiet(state, now, wall, MARGIN)).toBe(after === state && change === undefined);
        }
      }
    }
  });
});
