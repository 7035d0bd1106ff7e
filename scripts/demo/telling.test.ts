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
