import { renderTimeline } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import { ACTS, type PlayedRun } from './acts.ts';
import type { Fact, StoryEvent } from './story.ts';
import { timelineOf } from './timeline.ts';
import { panelOf } from './timeline-panel.ts';
import { resultOf } from './verdict.ts';
import type { World } from './world.ts';

const world: World = {
  simulated: false,
  coordinator: 'etcd 3.5.30',
  storage: 'PostgreSQL 15.14',
  names: { coordinator: 'etcd', storage: 'PostgreSQL' },
  ttlMs: 3_000,
  cast: '',
  now: () => 0,
  open: () => Promise.reject(new Error('not played')),
  close: async () => {},
};

const A = 'lineage:5:1';
const B = 'lineage:6:1';
const key = { who: 'coordinator' } as const;
const acquired = (who: 'A' | 'B', token: string, claimed: boolean): Fact => {
  return { who, kind: 'acquired', token, claimed };
};
const applied = (of: 'A' | 'B', token: string, amount: number, balance: number): Fact => {
  return { who: 'storage', kind: 'applied', of, token, entry: `${of}-1`, amount, balance };
};
const refused: Fact = {
  ...{ who: 'storage', kind: 'refused', of: 'A', token: A, inForce: B, code: 'stale-token', message: '' },
};

/** All at one moment, as on a clock that stands still. */
function runOf(guarded: boolean, hindrance: 'pause' | 'outage'): PlayedRun {
  const sent: Fact = { who: 'A', kind: 'sent', token: A, balance: 130 };
  const [before, after]: Fact[][] =
    hindrance === 'pause'
      ? [[{ who: 'A', kind: 'stopped' }], [{ who: 'A', kind: 'woken' }, sent]]
      : [
          [{ who: 'network', kind: 'stalled' }, sent, { who: 'network', kind: 'held' }],
          [{ who: 'network', kind: 'restored' }],
        ];
  const facts: Fact[] = [
    { ...key, kind: 'enqueued', of: 'A', revision: '5', behind: undefined },
    acquired('A', A, guarded),
    ...(before ?? []),
    { ...key, kind: 'enqueued', of: 'B', revision: '6', behind: 'A' },
    { ...key, kind: 'removed', of: 'A', revision: '5' },
    acquired('B', B, guarded),
    { who: 'B', kind: 'sent', token: B, balance: 150 },
    applied('B', B, 50, 150),
    { ...key, kind: 'removed', of: 'B', revision: '6' },
    ...(after ?? []),
    guarded ? refused : applied('A', A, 30, 130),
    { who: 'A', kind: 'lost', token: A, reason: 'unconfirmed', message: 'lost' },
  ];
  const events = facts.map((fact): StoryEvent => ({ ...fact, atMs: 3_000 }));
  const found = guarded ? { balance: 150, entries: ['B-1'] } : { balance: 130, entries: ['A-1'] };
  return { guarded, events, ...resultOf(events, found) };
}

describe('the timeline of a run', () => {
  it('shows the late write and what came of it', () => {
    for (const hindrance of ['pause', 'outage'] as const) {
      const [unguarded, guarded] = [false, true].map((on) => panelOf(runOf(on, hindrance), world));
      expect(unguarded?.verdict?.good).toBe(false);
      expect(guarded?.verdict).toEqual({
        good: true,
        text: 'The balance is 150, as it should be: the late write was refused, and A started over',
      });
      const lanes = ['lease', 'A', ...(hindrance === 'pause' ? [] : ['network']), 'B', 'storage'];
      expect(guarded?.lanes.map(({ id }) => id)).toEqual(lanes);
      const late = hindrance === 'pause' ? ['A storage'] : ['A network', 'network storage'];
      for (const [panel, kind] of [
        [unguarded, 'harmful'],
        [guarded, 'refused'],
      ] as const) {
        const arrows = panel?.arrows?.filter((arrow) => arrow.kind === kind) ?? [];
        expect(arrows.map(({ from, to }) => `${from.lane} ${to.lane}`)).toEqual(late);
      }
      const stored = unguarded?.lanes.at(-1)?.spans?.map(({ kind, label }) => `${kind} ${label}`);
      expect(stored).toEqual(['state balance 100', 'state 150', 'wrong-state 130']);
      const promised = guarded?.lanes.at(-1)?.spans?.filter(({ kind }) => kind === 'claim');
      expect(promised?.map(({ token }) => token)).toEqual([A, B]);
    }
  });

  it('keeps apart what happens while the clock stands still', () => {
    const run = runOf(true, 'pause');
    const { lanes } = panelOf(run, world);
    const moments = lanes.flatMap(({ events = [] }) => events.map(({ atMs }) => atMs));
    expect(new Set(moments).size).toBe(moments.length);
    // None of it as much as a tenth of a millisecond, which is what is shown.
    expect(Math.max(...moments) - 3_000).toBeLessThan(0.1);
    const order = [...moments].sort((one, other) => one - other);
    expect(order[0]).toBe(lanes[1]?.events?.[0]?.atMs);
  });

  it('draws what has not ended to the end of its panel', () => {
    const { events, ...run } = runOf(false, 'pause');
    const early = events.slice(0, 6);
    const { lanes } = panelOf({ ...run, events: early }, world);
    const spans = lanes.flatMap(({ spans = [] }) => spans);
    expect(spans.filter(({ toMs }) => toMs === undefined).map(({ kind }) => kind)).toEqual([
      ...['lease', 'hold', 'paused', 'hold', 'state'],
    ]);
    const acts = ACTS.map((act) => ({
      name: act.name,
      act,
      unguarded: { ...run, events: early },
      guarded: runOf(true, act.hindrance),
    }));
    expect(renderTimeline(timelineOf(world, acts))).toContain('late write refused: stale-token');
  });
});
