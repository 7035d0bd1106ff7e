import { describe, expect, it } from 'vitest';
import { Page } from './page.ts';
import { Story } from './story.ts';

describe('the story', () => {
  it('puts facts in the order of their moments, but leaves what was told', () => {
    const story = new Story(1_000);
    story.record({ who: 'A', kind: 'woken' }, 1_300);
    story.record({ who: 'A', kind: 'stopped' }, 1_200);
    expect(story.takeNews().map(({ atMs, kind }) => [atMs, kind])).toEqual([
      [200, 'stopped'],
      [300, 'woken'],
    ]);
    story.record({ who: 'network', kind: 'stalled' }, 1_100);
    expect(story.takeNews().map(({ kind }) => kind)).toEqual(['stalled']);
    expect(story.takeNews()).toEqual([]);
    expect(story.events.map(({ kind }) => kind)).toEqual(['stalled', 'stopped', 'woken']);
  });

  it('puts what the watch reported late before what followed from it', () => {
    const story = new Story(0);
    const acquired = (who: 'A' | 'B', revision: number, at: number) =>
      story.record({ who, kind: 'acquired', token: `lineage:${revision}:1`, claimed: false }, at);
    const key = { who: 'coordinator', of: 'A', revision: '5' } as const;
    acquired('A', 5, 10);
    story.record({ ...key, kind: 'enqueued', behind: undefined }, 12);
    story.record({ ...key, kind: 'removed' }, 3_010);
    acquired('B', 6, 3_008);
    const kinds = ['enqueued', 'acquired', 'removed', 'acquired'];
    expect(story.events.map(({ kind }) => kind)).toEqual(kinds);
    expect(story.takeNews().map(({ kind }) => kind)).toEqual(kinds);
    expect(story.events.map(({ atMs }) => Math.round(atMs))).toEqual([10, 10, 3_008, 3_008]);
  });
});

describe('the page', () => {
  const written = (isTTY: boolean, env: NodeJS.ProcessEnv): string => {
    const pieces: string[] = [];
    const page = new Page({ isTTY, write: (text) => pieces.push(text) }, env);
    page.columns('0.100', 'A', 'is stopped', 'hindered');
    return pieces.join('');
  };

  it('is coloured on a terminal alone, and where NO_COLOR is not set', () => {
    const plain = '   0.100  A            is stopped\n';
    expect(written(true, {})).toContain('\u001b[');
    expect(written(false, {})).toBe(plain);
    expect(written(true, { NO_COLOR: '1' })).toBe(plain);
    expect(written(true, { TERM: 'dumb' })).toBe(plain);
  });
});
