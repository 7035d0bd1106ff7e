import { describe, expect, it } from 'vitest';
import type { History } from '../history/history.ts';
import { HistoryRecorder, type RecordedProcess } from '../history/history-recorder.ts';
import { timelineOfHistory } from './from-history.ts';
import type { TimelineLane, TimelinePanel } from './model.ts';
import { renderTimelinePage } from './page.ts';

function panelOf(play: (process: (name: string) => RecordedProcess) => void): TimelinePanel {
  let ms = 0;
  const recorder = new HistoryRecorder({
    now: () => {
      ms += 10;
      return ms;
    },
  });
  play((name) => recorder.process(name));
  const [panel] = timelineOfHistory(recorder.history).acts[0]?.panels ?? [];
  if (panel === undefined) throw new RangeError('no panel');
  return panel;
}

const lane = ({ lanes }: TimelinePanel, label: string): TimelineLane | undefined =>
  lanes.find((one) => one.label === label);
const kinds = (one: TimelineLane | undefined) => ({
  spans: one?.spans?.map(({ kind, fromMs, toMs }) => `${kind} ${fromMs}-${toMs ?? ''}`),
  events: one?.events?.map(({ kind, atMs }) => `${kind} ${atMs}`),
});

describe('timelineOfHistory', () => {
  it('has a lane for each lock that a watch told of, each process and each resource', () => {
    const panel = panelOf((process) => {
      const [a, etcd] = [process('A'), process('etcd')];
      const acquire = a.invoke({ f: 'acquire', lock: 'job' });
      etcd.info({ f: 'grant', lock: 'job', token: 5n });
      acquire.ok({ token: 5n });
      a.invoke({ f: 'claim', resource: 'account', token: 5n }).ok();
      a.invoke({ f: 'write', resource: 'account', token: 5n, entry: 'x' }).ok();
      a.info({ f: 'pause' });
      etcd.info({ f: 'expiry', lock: 'job', token: 5n });
      a.info({ f: 'resume' });
      a.info({ f: 'loss', lock: 'job', token: 5n });
    });
    expect(panel.lanes.map(({ label }) => label)).toEqual(['job', 'A', 'account']);
    expect(kinds(lane(panel, 'job'))).toEqual({ spans: ['lease 20-90'], events: ['lease-expired 90'] });
    expect(kinds(lane(panel, 'A'))).toEqual({
      spans: ['wait 10-30', 'hold 30-110', 'paused 80-100'],
      events: ['acquired 30', 'claimed 50', 'write-sent 60', 'woken 100', 'aborted 110'],
    });
    expect(kinds(lane(panel, 'account'))).toEqual({ spans: ['claim 50-'], events: ['write-applied 70'] });
    expect(panel.arrows).toEqual([
      { from: { lane: 'process A', atMs: 60 }, to: { lane: 'resource account', atMs: 70 }, kind: 'plain' },
    ]);
    expect(panel.verdict).toEqual({ good: true, text: 'No promise was broken' });
  });

  it('tells a refusal from a failure, and both from what nobody knows', () => {
    const panel = panelOf((process) => {
      const a = process('A');
      const write = () => a.invoke({ f: 'write', resource: 'account', entry: 'x' });
      write().fail('stale-token: below 9');
      write().fail('the disk is full');
      write().unknown('reset');
      write();
    });
    expect(kinds(lane(panel, 'account')).events).toEqual(['write-refused 20', 'failed 40']);
    expect(kinds(lane(panel, 'A')).spans).toEqual(['unknown 50-60', 'unknown 70-']);
    expect(panel.arrows?.map(({ kind }) => kind)).toEqual(['refused', 'refused']);
  });

  it('shows what the checker found, where it found it', () => {
    const panel = panelOf((process) => {
      const [a, b] = [process('A'), process('B')];
      a.invoke({ f: 'write', resource: 'account', token: 9n, entry: 'lost' }).ok();
      b.invoke({ f: 'write', resource: 'account', token: 5n, entry: 'late' }).ok();
      b.invoke({ f: 'read', resource: 'account', final: true }).ok({ entries: ['late'] });
    });
    expect(panel.verdict).toEqual({ good: false, text: '1 × stale write, 1 × lost update' });
    expect(panel.notes?.map(({ severity, at }) => ({ severity, at }))).toEqual([
      { severity: 'violation', at: { lane: 'resource account', atMs: 40 } },
      { severity: 'violation', at: { lane: 'process B', atMs: 60 } },
    ]);
    expect(lane(panel, 'account')?.events?.map(({ kind, label }) => `${kind}: ${label}`)).toEqual([
      'lost-update: applied, lost later: lost',
      'lost-update: applied too late: late',
    ]);
  });

  it('gives a process as many lanes as it holds locks at once', () => {
    const panel = panelOf((process) => {
      const a = process('A');
      const acquire = (lock: string, token: bigint) => a.invoke({ f: 'acquire', lock }).ok({ token });
      acquire('one', 1n);
      acquire('two', 2n);
      a.invoke({ f: 'release', lock: 'one', token: 1n }).ok();
      acquire('three', 3n);
    });
    expect(panel.lanes.map(({ id }) => id)).toEqual(['process A', 'process A 1']);
    const tokens = panel.lanes.map(({ spans = [] }) =>
      spans.flatMap(({ kind, token }) => (kind === 'hold' ? [token] : [])),
    );
    expect(tokens).toEqual([['1', '3'], ['2']]);
  });

  it('sets equal times apart, in the order of the history', () => {
    const at = { process: 'A', atMs: 5 } as const;
    const history: History = [
      { ...at, type: 'invoke', op: 1, f: 'release', lock: 'job' },
      { ...at, type: 'ok', op: 1 },
      { ...at, type: 'info', f: 'loss', lock: 'job' },
    ];
    const events = timelineOfHistory(history).acts[0]?.panels[0]?.lanes[0]?.events ?? [];
    expect(events.map(({ kind }) => kind)).toEqual(['released', 'aborted']);
    expect(events[0]?.atMs).toBeLessThan(events[1]?.atMs ?? 0);
  });
});

describe('renderTimelinePage', () => {
  const history: History = [
    { type: 'info', f: 'fault', name: '</script><b>"&', process: 'A\u0007', atMs: 0 },
  ];

  it('is one page that names nothing outside, and gives the same text for the same input', () => {
    const page = renderTimelinePage(history, { title: 'T', subtitle: 'S' });
    expect(page).toBe(renderTimelinePage(timelineOfHistory(history, { title: 'T', subtitle: 'S' })));
    expect(page).not.toMatch(/https?:|\bsrc=|\bhref=|url\((?!#)|@import|sourceMappingURL/);
    expect(page.slice(0, page.indexOf('<script>'))).not.toMatch(/\bNaN\b|undefined|Infinity/);
    expect(page).toMatch(/default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[\w+/]{43}='/);
  });

  it('lets nothing of the history out of its place', () => {
    const page = renderTimelinePage(history);
    expect(page.match(/<\/?script>/g)).toEqual(['<script>', '</script>']);
    expect(page).toContain('&lt;/script&gt;&lt;b&gt;&quot;&amp;');
    expect(page).not.toContain('<b>"');
    expect(page).not.toContain('\u0007');
  });
});
