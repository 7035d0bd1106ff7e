// The experiment's bookkeeping, and what it refuses. It is run by itself: `npm run experiment`.
import { readFile } from 'node:fs/promises';
import { HistoryRecorder } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import { readArguments, UsageError } from './experiment/arguments.ts';
import { CONTESTANTS } from './experiment/contestants.ts';
import { type Tally, tallyOf } from './experiment/group.ts';
import { lateWrites } from './experiment/late-writes.ts';
import { showsLosses } from './experiment/run-experiment.ts';
import { markdownOf } from './experiment/table.ts';

describe('the tally', () => {
  it('counts confirmed writes, and which of them are gone', () => {
    const recorder = new HistoryRecorder();
    const [a, list] = [recorder.process('a'), recorder.process('list')];
    const write = (entry: string) => a.invoke({ f: 'write', resource: 'list', entry });
    a.invoke({ f: 'acquire', lock: 'list' }).ok();
    write('a-1').ok();
    write('a-2').ok();
    a.info({ f: 'pause' });
    a.info({ f: 'resume' });
    write('a-3').fail('stale-token');
    write('a-4').unknown('reset');
    write('a-5');
    list.invoke({ f: 'read', resource: 'list', final: true }).ok({ entries: ['a-2'] });
    expect(tallyOf('lock', recorder.history)).toEqual({
      contestant: 'lock',
      acknowledged: 2,
      lost: 1,
      late: 0,
      refused: 1,
      unknown: 1,
      pauses: 1,
    });
  });

  it('shows something only where each group without a guard has lost something', () => {
    const row = (contestant: Tally['contestant'], lost: number) => ({ contestant, lost }) as Tally;
    expect(showsLosses([row('etcd3', 1), row('lock', 2), row('guarded', 0)])).toBe(true);
    expect(showsLosses([row('etcd3', 1), row('lock', 0), row('guarded', 0)])).toBe(false);
  });
});

describe('a late write', () => {
  const played = (stoppedMs: number, isOvertaken: boolean) => {
    let now = 0;
    const recorder = new HistoryRecorder({ now: () => now });
    const [a, b] = [recorder.process('a'), recorder.process('b')];
    a.invoke({ f: 'acquire', lock: 'list' }).ok();
    a.info({ f: 'pause' });
    b.invoke({ f: 'acquire', lock: 'list' }).ok();
    if (isOvertaken) b.invoke({ f: 'write', resource: 'list', entry: 'b-1' }).ok();
    now = stoppedMs;
    a.info({ f: 'resume' });
    a.invoke({ f: 'write', resource: 'list', entry: 'a-1' }).fail('stale-token');
    return lateWrites(recorder.history, 2_000);
  };

  it('comes from a process that was stopped past its lease, after others wrote', () => {
    expect(played(2_001, true)).toEqual([2_001]);
    expect(played(2_000, true)).toEqual([]);
    expect(played(2_001, false)).toEqual([]);
  });
});

describe('the documentation', () => {
  it('shows the table of a run of at least ten minutes that lost nothing with a guard', async () => {
    const page = await readFile(new URL('../docs/experiment.md', import.meta.url), 'utf8');
    const [, printed = ''] = page.split('<!-- npm run experiment -- --markdown -->\n');
    expect(Number(/; (\d+) s\./.exec(printed)?.[1])).toBeGreaterThanOrEqual(600);
    const rows = Object.values(CONTESTANTS).map((title) => {
      const cells =
        printed
          .split('\n')
          .find((line) => line.startsWith(`| ${title} |`))
          ?.split('|') ?? [];
      return cells.slice(2, -1).map((cell) => Number.parseInt(cell, 10));
    });
    expect(rows.map(([, lost]) => (lost ?? Number.NaN) > 0)).toEqual([true, true, false]);
    const empty = markdownOf({
      servers: '',
      seconds: 0,
      rows: [],
      histories: { etcd3: [], lock: [], guarded: [] },
    });
    expect(printed).toContain(empty.trim().split('\n').slice(-2).join('\n'));
  });
});

describe('the arguments', () => {
  it.each([
    [['--fast']],
    [['--seconds', '0']],
    [['--seconds', '1.5']],
    [['--json', '--markdown']],
    [['now']],
  ])('%j are refused', (args) => {
    expect(() => readArguments(args)).toThrow(UsageError);
  });

  it('may be none: ten minutes, for people', () => {
    expect(readArguments([])).toEqual({ seconds: 600, format: 'text', timeline: undefined, help: false });
  });
});
