import { describe, expect, it } from 'vitest';
import { OPENING } from './account.ts';
import type { StoryEvent } from './story.ts';
import { type ActResult, type RunResult, resultOf, shortcomings, totalOf } from './verdict.ts';

const A = 'lineage:4:a';
const B = 'lineage:6:b';
const A_AGAIN = 'lineage:9:c';

const acquired = (who: 'A' | 'B', token: string): StoryEvent => ({
  who,
  kind: 'acquired',
  token,
  claimed: true,
  atMs: 0,
});
const lost: StoryEvent = {
  who: 'A',
  kind: 'lost',
  token: A,
  reason: 'unconfirmed',
  message: 'lost',
  atMs: 0,
};
const applied = (of: 'A' | 'B', token: string, amount: number, balance: number): StoryEvent => ({
  who: 'storage',
  kind: 'applied',
  of,
  token,
  entry: `${of}-1`,
  amount,
  balance,
  atMs: 0,
});
const refused = (code: string): StoryEvent => ({
  who: 'storage',
  kind: 'refused',
  of: 'A',
  token: A,
  inForce: B,
  code,
  message: 'refused',
  atMs: 0,
});

const harmed = [acquired('A', A), acquired('B', B), applied('B', B, 50, 150), applied('A', A, 30, 130), lost];
const saved = [
  ...[acquired('A', A), acquired('B', B), applied('B', B, 50, 150), refused('stale-token'), lost],
  ...[acquired('A', A_AGAIN), applied('A', A_AGAIN, 30, 180)],
];
const unguarded = resultOf(harmed, { balance: 130, entries: ['A-1'] });
const guarded = resultOf(saved, { balance: 180, entries: ['B-1', 'A-1'] });

describe('what a run did', () => {
  it('counts acknowledged entries that the account does not contain', () => {
    expect(unguarded).toMatchObject({
      acknowledged: 2,
      expectedBalance: OPENING.balance + 80,
      foundBalance: 130,
      lostUpdates: 1,
      rejected: 0,
      signalReason: 'unconfirmed',
    });
    expect(unguarded).not.toHaveProperty('rejectedWith');
  });

  it('counts refusals, which are no losses', () => {
    expect(guarded).toMatchObject({ lostUpdates: 0, rejected: 1, rejectedWith: 'stale-token' });
    expect(guarded.tokens.map(({ holder }) => holder)).toEqual(['A', 'B', 'A']);
  });

  it('adds the runs up', () => {
    expect(totalOf([guarded, guarded])).toEqual({
      acknowledged: 4,
      expectedBalance: 360,
      foundBalance: 360,
      lostUpdates: 0,
      rejected: 2,
      rejectedWith: 'stale-token',
      signalReason: 'unconfirmed',
    });
  });
});

describe('the verdict', () => {
  const act = (changes: { unguarded?: Partial<RunResult>; guarded?: Partial<RunResult> }): ActResult => ({
    name: 'act',
    unguarded: { ...unguarded, ...changes.unguarded },
    guarded: { ...guarded, ...changes.guarded },
  });

  it('is content with a loss without a guard and none with it', () => {
    expect(shortcomings([act({}), act({})])).toEqual([]);
  });

  it.each([
    ['a guard that lost an update', act({ guarded: { lostUpdates: 1 } })],
    ['a wrong balance behind the guard', act({ guarded: { foundBalance: 179 } })],
    ['a refusal for another reason', act({ guarded: { rejectedWith: 'timeout' } })],
    ['no loss without a guard', act({ unguarded: { lostUpdates: 0 } })],
    ['a right balance in spite of a loss', act({ unguarded: { foundBalance: 180 } })],
    ['a refusal without a guard', act({ unguarded: { rejected: 1 } })],
    ['tokens that do not rise', act({ unguarded: { tokens: unguarded.tokens.toReversed() } })],
    ['equal tokens', act({ guarded: { tokens: [...guarded.tokens, ...guarded.tokens.slice(-1)] } })],
    ['a worker that failed', act({ guarded: { failures: ['A: broken'] } })],
    ['a missing entry', act({ guarded: { acknowledged: 1 } })],
  ])('names %s', (_what, bad) => {
    expect(shortcomings([act({}), bad])).toHaveLength(1);
  });

  it("names a signal of A's that did not abort", () => {
    const unheard = saved.filter((event) => event !== lost);
    const silent = resultOf(unheard, { balance: 180, entries: ['B-1', 'A-1'] });
    expect(shortcomings([{ ...act({}), guarded: silent }])).toEqual([
      "act, with the guard: A's signal did not abort",
    ]);
  });

  it('is not content with a guard that lets the late write through', () => {
    const tampered = resultOf(harmed, { balance: 130, entries: ['A-1'] });
    expect(shortcomings([{ ...act({}), guarded: tampered }])).toEqual([
      'act, with the guard: 1 acknowledged updates were lost',
      'act, with the guard: the balance is 130, expected 180',
      'act, with the guard: the late write was answered with no refusal, expected stale-token',
    ]);
  });

  it('is not content with nothing', () => {
    expect(shortcomings([])).toEqual(['no act was played']);
  });
});
