import { FencingToken } from '@lockkeeper/fencing';
import { describe, expect, it } from 'vitest';
import { type DrillState, judge, overall, type PlayFacts, type RunFacts } from './verdict.ts';

const token = (n: number) =>
  String(new FencingToken({ lineage: 'L', revision: BigInt(n), acquisition: `a${n}` }));
const run = (update: string, n: number, facts: Partial<RunFacts> = {}): RunFacts => ({
  update,
  outcome: 'acknowledged',
  tokens: new Map([['x', token(n)]]),
  ...facts,
});

/** The first paused, the second took over. */
function verdictOf(before: DrillState, after: DrillState, facts: Partial<PlayFacts> = {}) {
  const play = {
    held: true,
    tookOver: true,
    first: run('first', 7),
    second: run('second', 9),
    before,
    after,
  };
  return judge({ ...play, ...facts });
}

describe('judge', () => {
  it.each<[string, DrillState, DrillState]>([
    ['a text', 'second', 'first'],
    ['a list', ['second'], ['first']],
  ])('finds a lost update in %s', (_, before, after) => {
    expect(verdictOf(before, after)).toMatchObject({ verdict: 'exposed', lostUpdates: ['second'] });
  });

  it('counts lost updates where the storage counts', () => {
    const { verdict, lostUpdates } = verdictOf(1, 1);
    expect([verdict, lostUpdates]).toEqual(['exposed', ['1 of 2 acknowledged updates']]);
  });

  it.each<[DrillState, DrillState]>([
    ['second', 'second first'],
    [['second'], ['second', 'first']],
    [1, 2],
  ])('finds a late write that was accepted: %j, then %j', (before, after) => {
    expect(verdictOf(before, after)).toMatchObject({ verdict: 'exposed', staleWrites: ['first'] });
  });

  it('takes an update that the first was told failed, and that is there, for accepted all the same', () => {
    const first = run('first', 7, { outcome: 'unknown', error: 'no answer' });
    expect(verdictOf('second', 'second first', { first }).staleWrites).toEqual(['first']);
  });

  it.each<[string, Partial<PlayFacts>, DrillState, DrillState]>([
    ['a write of a new hold is not late', { first: run('first', 11) }, 'second', 'second first'],
    ['nor one that was there before', {}, 'first second', 'first second'],
    ['nor one that the second had to wait for', { tookOver: false }, '', 'first second'],
    ['a refused one did no harm', { first: run('first', 7, { outcome: 'rejected' }) }, 'second', 'second'],
  ])('protected: %s', (_, facts, before, after) => {
    expect(verdictOf(before, after, facts)).toMatchObject({ verdict: 'protected', staleWrites: [] });
  });

  it.each<[string, Partial<PlayFacts>]>([
    ['nothing was held', { held: false }],
    ['the second failed', { tookOver: false, second: run('second', 9, { outcome: 'unknown' }) }],
    ['the second held nothing', { second: run('second', 9, { tokens: new Map() }) }],
    ['the first ended', { first: run('first', 7, { outcome: 'ended' }) }],
    ['the first hung', { first: run('first', 7, { outcome: 'timeout' }) }],
  ])('inconclusive: %s', (_, facts) => {
    expect(verdictOf('first second', 'first second', facts).verdict).toBe('inconclusive');
  });

  it('inconclusive: a late write that no common lock orders', () => {
    const first = run('first', 7, { tokens: new Map([['y', token(7)]]) });
    expect(verdictOf('second', 'second first', { first }).verdict).toBe('inconclusive');
  });
});

it('is protected overall only where every point is', () => {
  expect(overall(['protected', 'protected'])).toBe('protected');
  expect(overall(['protected', 'inconclusive'])).toBe('inconclusive');
  expect(overall(['inconclusive', 'exposed', 'protected'])).toBe('exposed');
  expect(overall([])).toBe('inconclusive');
});
