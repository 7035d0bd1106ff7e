import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type History, renderTimelinePage, type Timeline, timelineOfHistory } from '@lockkeeper/testkit';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lateWrite } from './fixtures/late-write-history.ts';
import { longHistory } from './fixtures/long-history.ts';
import { settled, TestBrowser, type WatchedPage } from './support/browser.ts';
import { chromium } from './support/chromium.ts';

const program = chromium();
const WIDTHS = [1_600, 1_280, 1_024, 390];

const story: Timeline = {
  title: 'Two workers and an account',
  subtitle: 'A pause of 4.4 s between the check and the write, at a TTL of 3 s.',
  acts: [
    {
      title: 'A is paused',
      panels: [false, true].flatMap((guarded) =>
        (timelineOfHistory(lateWrite(guarded)).acts[0]?.panels ?? []).map((panel) => ({
          ...panel,
          title: guarded ? 'With a guard' : 'Without a guard',
        })),
      ),
    },
  ],
};

describe.skipIf(program === undefined)('the timeline page, in a browser', () => {
  let browser: TestBrowser;
  let folder: string;
  const pages: WatchedPage[] = [];

  beforeAll(async () => {
    if (program === undefined) return;
    folder = await mkdtemp(join(tmpdir(), 'lockkeeper-page-'));
    browser = await TestBrowser.start(program);
  });
  afterAll(async () => {
    // Nothing of ours may ask for anything, nor break, whatever a test did with it.
    for (const page of pages) expect(page.complaints).toEqual([]);
    for (const page of pages) expect(page.requests).toHaveLength(1);
    await browser?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  async function open(content: Timeline | History, width = 1_280, height = 900): Promise<Page> {
    const file = join(folder, `${pages.length}.html`);
    await writeFile(file, renderTimelinePage(content));
    const opened = await browser.open(file, { width, height });
    pages.push(opened);
    return opened.page;
  }

  it.each(WIDTHS)(
    'has no two texts in one place at a width of %i, and does not scroll sideways',
    async (width) => {
      const page = await open(story, width);
      expect(await page.evaluate(OVERLAPS)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
      for (const zoom of ['in', 'in', 'in']) await page.evaluate(click(`[data-zoom=${zoom}]`));
      await settled(page);
      expect(await page.evaluate(OVERLAPS)).toEqual([]);
    },
  );

  it('shows every label where there is room for all', async () => {
    const page = await open(story, 1_400);
    expect(await page.evaluate(`document.querySelectorAll('.said.hidden, .in-span.hidden').length`)).toBe(0);
    expect(await page.evaluate<number>(`document.querySelectorAll('.said').length`)).toBeGreaterThan(25);
  });

  it('stays readable with 5,000 events, and shows each when one is near enough', async () => {
    const page = await open(longHistory(5_000));
    expect(await page.evaluate(OVERLAPS)).toEqual([]);
    const shown = () => page.evaluate<number>(`document.querySelectorAll('.said:not(.hidden)').length`);
    const fromAfar = await shown();
    expect(fromAfar).toBeGreaterThan(20);
    await page.evaluate(`(() => {
      const button = document.querySelector('[data-zoom=in]');
      while (!button.disabled) button.click();
    })()`);
    await settled(page);
    expect(await page.evaluate(OVERLAPS)).toEqual([]);
    expect(await shown()).toBe(await page.evaluate(`document.querySelectorAll('.said').length`));
    // What is out of sight is not drawn, and yet can be reached.
    expect(await page.evaluate(`document.querySelectorAll('.item').length`)).toBeGreaterThan(4_000);
    expect(await page.evaluate<number>(`document.querySelectorAll('.away').length`)).toBeGreaterThan(3_000);
    await page.evaluate(`document.querySelector('.tl-view').focus()`);
    await press(page, 'End');
    expect(await page.evaluate(`document.activeElement.getAttribute('aria-label')`)).toContain('last look');
    expect(await page.evaluate(`document.activeElement.closest('.away')`)).toBe(null);
  });

  it('zooms by buttons, keys, and Ctrl with the wheel, around what is pointed at', async () => {
    const page = await open(story);
    const width = () =>
      page.evaluate<number>(`document.querySelector('.tl-plot').getBoundingClientRect().width`);
    const label = () => page.evaluate(`document.querySelector('output').textContent`);
    const whole = await width();
    expect(await label()).toBe('100 %');
    expect(await page.evaluate(`document.querySelector('[data-zoom=out]').disabled`)).toBe(true);
    await page.evaluate(click('[data-zoom=in]'));
    expect((await width()) / whole).toBeCloseTo(1.6, 2);
    expect(await label()).toBe('160 %');

    const mark = `document.querySelectorAll('.item .mark')[3].getBoundingClientRect()`;
    const at = await page.evaluate<{ x: number; y: number }>(
      `(({x, y, width, height}) => ({x: x + width / 2, y: y + height / 2}))(${mark})`,
    );
    await page.mouse.move(at.x, at.y);
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -120);
    await page.keyboard.up('Control');
    await settled(page);
    expect(await width()).toBeGreaterThan(whole * 2.5);
    const there = await page.evaluate<number>(`(({x, width}) => x + width / 2)(${mark})`);
    expect(Math.abs(there - at.x)).toBeLessThan(2);

    const before = await width();
    await page.mouse.wheel(0, 120);
    await settled(page);
    expect(await width()).toBe(before);

    await page.evaluate(`document.querySelector('.tl-view').focus()`);
    await press(page, '+');
    expect((await width()) / before).toBeCloseTo(1.6, 2);
    await press(page, '0');
    expect(await width()).toBe(whole);
  });

  it('pans by dragging', async () => {
    const page = await open(story);
    for (let i = 0; i < 3; i += 1) await page.evaluate(click('[data-zoom=in]'));
    const left = () => page.evaluate<number>(`document.querySelector('.tl-view').scrollLeft`);
    const box = await page.evaluate<{ x: number; y: number }>(
      `(({right, bottom}) => ({x: right - 100, y: bottom - 60}))(document.querySelector('.tl-view').getBoundingClientRect())`,
    );
    const before = await left();
    await page.mouse.move(box.x, box.y);
    await page.mouse.down();
    await page.mouse.move(box.x - 150, box.y);
    await page.mouse.up();
    await settled(page);
    expect((await left()) - before).toBe(150);
  });

  it('tells all that is known of what is pointed at', async () => {
    const page = await open(story);
    const tip = () =>
      page.evaluate(
        `(({hidden, innerText}) => (hidden ? '' : innerText))(document.querySelector('#tl-tip'))`,
      );
    expect(await tip()).toBe('');
    const refused = `document.querySelectorAll('.tl-panel')[1].querySelector('.item .mark.good').closest('.item')`;
    await page.evaluate(`${refused}.scrollIntoView({block: 'center'})`);
    await settled(page);
    const at = await page.evaluate<{ x: number; y: number }>(
      `(({x, y, width, height}) => ({x: x + width / 2, y: y + height / 2}))(${refused}.getBoundingClientRect())`,
    );
    await page.mouse.move(at.x, at.y);
    await settled(page);
    expect(await tip()).toBe(
      [
        'refused (stale-token) a2',
        ...['What', 'write refused', 'Where', 'account 17', 'At', '4.492 s', 'Token', 'mfk2q9:5:acq5'],
        ...['By', 'Worker A', 'Resource', 'account 17', 'Entry', 'a2'],
        ...['Error', 'stale-token: token 5 is below 9, which is in force', 'Took ms', '13.0'],
      ].join('\n'),
    );
    expect(await page.evaluate(INSIDE_WINDOW)).toBe(true);
    await page.mouse.move(5, 5);
    await settled(page);
    expect(await tip()).toBe('');
  });

  it('goes from event to event by keys, and tells of each', async () => {
    const page = await open(story);
    const focused = () => page.evaluate(`document.activeElement.getAttribute('aria-label')`);
    await page.evaluate(`document.querySelectorAll('.tl-view')[1].focus()`);
    await press(page, 'ArrowRight');
    expect(await focused()).toBe('0 s, Worker A: waits in the queue');
    await press(page, 'ArrowRight');
    expect(await focused()).toBe('0.006 s, invoices: token 5');
    expect(await page.evaluate(`document.querySelector('#tl-tip').innerText`)).toContain('mfk2q9:5:acq5');
    await press(page, 'ArrowDown');
    expect(await focused()).toBe('0.011 s, Worker A: token 5');
    await press(page, 'ArrowDown');
    expect(await focused()).toContain(', Worker B: ');
    expect(await page.evaluate(`document.querySelectorAll('.ring:not(.hidden)').length`)).toBe(1);
    await press(page, 'End');
    expect(await focused()).toContain('last look');
    await press(page, 'Escape');
    expect(await page.evaluate(`document.querySelector('#tl-tip').hidden`)).toBe(true);
  });

  it('leads from a finding to its event, from afar too', async () => {
    const page = await open(story, 390);
    await page.evaluate(click('.tl-notes button'));
    await settled(page);
    expect(await page.evaluate(`document.activeElement.getAttribute('aria-label')`)).toBe(
      '4.492 s, account 17: applied too late: a2',
    );
    expect(await page.evaluate(`document.activeElement.getBoundingClientRect().left < innerWidth - 8`)).toBe(
      true,
    );
    expect(await page.evaluate(INSIDE_WINDOW)).toBe(true);
  });

  it('names everything for those who cannot see it', async () => {
    const page = await open(story);
    const nameless = `[...document.querySelectorAll('.item, .tl-view, button, output, .tl-notes, .tl-legend')]
      .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim())).length`;
    expect(await page.evaluate(nameless)).toBe(0);
    expect(await page.evaluate(`document.querySelectorAll('.tl-story li').length`)).toBeGreaterThan(40);
    expect(await page.evaluate(`document.title`)).toBe(story.title);
  });

  it.each(['light', 'dark'] as const)('can be read in %s', async (colours) => {
    const page = await open(story);
    await page.emulateMedia({ media: 'screen', colorScheme: colours });
    const { ground, contrasts } = await page.evaluate<{ ground: number; contrasts: number[] }>(CONTRASTS);
    expect(ground < 0.5).toBe(colours === 'dark');
    expect(contrasts.length).toBeGreaterThan(60);
    // WCAG 2, level AA.
    expect(Math.min(...contrasts)).toBeGreaterThanOrEqual(4.5);
  });

  it('is light, labelled and without controls on paper', async () => {
    const page = await open(story, 1_046);
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    await settled(page);
    const { ground } = await page.evaluate<{ ground: number }>(CONTRASTS);
    expect(ground).toBe(1);
    expect(await page.evaluate(OVERLAPS)).toEqual([]);
    expect(await page.evaluate(`document.querySelectorAll('.said.hidden, .in-span.hidden').length`)).toBe(0);
    const inSight = `[...document.querySelectorAll('.tl-tools, .tl-tip, .tl-keys, .tl-story, .ring')].filter((e) => e.getClientRects().length > 0).length`;
    expect(await page.evaluate(inSight)).toBe(0);
    expect(
      await page.evaluate(
        `[...document.querySelectorAll('.tl-plot')].every((e) => e.getBoundingClientRect().right <= innerWidth)`,
      ),
    ).toBe(true);
    await page.emulateMedia({ media: null });
    await settled(page);
    expect(await page.evaluate(`document.querySelector('output').textContent`)).toBe('100 %');

    const pdf = (await page.pdf({ preferCSSPageSize: true, printBackground: true })).toString('latin1');
    expect(pdf.startsWith('%PDF-')).toBe(true);
    expect(pdf.match(/\/Type \/Page\b(?!s)/g)?.length).toBe(2);
  });

  it('takes names for what they are, whatever is in them', async () => {
    const nasty = `</script><img src="x" onerror="alert(1)">'"&<!--`;
    const history: History = [
      { type: 'invoke', f: 'acquire', lock: nasty, op: 1, process: nasty, atMs: 0 },
      { type: 'ok', op: 1, process: nasty, atMs: 5, token: nasty },
      { type: 'info', f: 'fault', name: nasty, process: nasty, atMs: 6 },
      { type: 'invoke', f: 'write', resource: nasty, entry: nasty, op: 2, process: nasty, atMs: 7 },
      { type: 'fail', op: 2, process: nasty, atMs: 8, error: nasty },
      { type: 'info', f: 'loss', lock: nasty, cause: nasty, process: nasty, atMs: 9 },
    ];
    const { acts } = timelineOfHistory(history);
    const page = await open({
      title: nasty,
      subtitle: nasty,
      acts: acts.map((act) => ({ ...act, title: nasty })),
    });
    expect(await page.evaluate(`document.querySelectorAll('img, script').length`)).toBe(1);
    expect(await page.evaluate(`document.querySelector('h1').textContent`)).toBe(nasty);
    await page.evaluate(`document.querySelector('.item').focus()`);
    expect(await page.evaluate(`document.querySelector('#tl-tip').textContent`)).toContain(nasty);
  });

  it('can be empty', async () => {
    const page = await open([]);
    expect(await page.evaluate(`document.querySelector('.tl-verdict').innerText`)).toBe(
      'No promise was broken',
    );
  });
});

async function press(page: Page, key: string): Promise<void> {
  await page.keyboard.press(key);
  await settled(page);
}

function click(selector: string): string {
  return `document.querySelector('${selector}').click()`;
}

/** Pairs of texts that can be seen and touch: of the picture, and of what stands around it. */
const OVERLAPS = `(() => {
  const found = [];
  const compare = (elements, shrink, clip) => {
    const boxes = elements
      .map((element) => ({ what: element.textContent, box: element.getBoundingClientRect() }))
      .filter(({ box }) => box.width > 0 && box.right > clip.left + 1 && box.left < clip.right - 1)
      .sort((a, b) => a.box.left - b.box.left);
    for (const [i, a] of boxes.entries()) {
      for (const b of boxes.slice(i + 1)) {
        if (b.box.left >= a.box.right) break;
        const [top, bottom] = [Math.max(a.box.top, b.box.top), Math.min(a.box.bottom, b.box.bottom)];
        if (bottom - top > 2 * shrink) found.push(a.what + ' / ' + b.what);
      }
    }
  };
  for (const frame of document.querySelectorAll('.tl-frame')) {
    // The box of a text of SVG has the height of a line, which is more than that of its letters.
    compare([...frame.querySelectorAll('.tl-plot text')], 3, frame.querySelector('.tl-view').getBoundingClientRect());
    compare([...frame.querySelectorAll('.tl-names text')], 3, frame.getBoundingClientRect());
  }
  const page = document.documentElement.getBoundingClientRect();
  compare([...document.querySelectorAll('h1, h2, h3, .tl-sub, .tl-verdict, .tl-tools, .tl-legend li, .tl-note')], 0, page);
  return found;
})()`;

const INSIDE_WINDOW = `(({left, top, right, bottom}) => left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight)(document.querySelector('#tl-tip').getBoundingClientRect())`;

/** How light the page is, and the contrast of each text to what it stands on, by WCAG's formula. */
const CONTRASTS = `(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const html = [...document.querySelectorAll('h1, h2, h3, .tl-sub, .tl-verdict, .tl-notes li, .tl-legend li, .tl-note, summary')];
  // Those in a bar stand on its colour; the others have a halo of the page's.
  const svg = [...document.querySelectorAll('.tl-frame text:not(.hidden)')].filter((e) => !/on-(strong|tint|stopped|wrong)/.test(e.getAttribute('class')));
  const strong = [...document.querySelectorAll('.tl-plot .on-strong')].map((e) => {
    const tone = [...e.classList].find((name) => name.startsWith('tone-'));
    return contrast(light(getComputedStyle(e).fill), light(getComputedStyle(document.querySelector('.span.hold.' + tone)).fill));
  });
  return {
    ground,
    contrasts: [
      ...html.map((e) => contrast(light(getComputedStyle(e).color), ground)),
      ...svg.map((e) => contrast(light(getComputedStyle(e).fill), ground)),
      ...strong,
    ],
  };
})()`;
