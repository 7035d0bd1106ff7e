// A headless Chromium for tests of pages, driven by Playwright: pages are files, and may not ask for anything else.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import type { Chromium } from './chromium.ts';

const ARGS = ['--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-sync'];

/** A page, and what it did that no page of ours may do. */
export interface WatchedPage {
  readonly page: Page;
  /** What it asked of the network or the disk, its own file included. */
  readonly requests: readonly string[];
  /** Errors and warnings, of scripts and of the browser. */
  readonly complaints: readonly string[];
}

export class TestBrowser implements AsyncDisposable {
  readonly #browser: Browser;
  readonly #home: string;

  private constructor(browser: Browser, home: string) {
    this.#browser = browser;
    this.#home = home;
  }

  static async start({ bin, libDir, fontsDir }: Chromium): Promise<TestBrowser> {
    const home = await mkdtemp(join(tmpdir(), 'lockkeeper-browser-'));
    const fonts = join(home, 'fonts.conf');
    const cache = `<cachedir>${join(home, 'fonts')}</cachedir>`;
    await writeFile(fonts, `<fontconfig><dir>${fontsDir}</dir>${cache}</fontconfig>`);
    const own = {
      ...(libDir && { LD_LIBRARY_PATH: libDir }),
      ...(fontsDir && { FONTCONFIG_FILE: fonts }),
    };
    const env = { ...process.env, ...own, HOME: home };
    const browser = await chromium.launch({ executablePath: bin, args: ARGS, env, chromiumSandbox: false });
    return new TestBrowser(browser, home);
  }

  /** Opens a file, and resolves when it is loaded and drawn. */
  async open(file: string, viewport: { readonly width: number; readonly height: number }) {
    const page = await this.#browser.newPage({ viewport });
    const requests: string[] = [];
    const complaints: string[] = [];
    page.on('request', (request) => requests.push(request.url()));
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(`file://${file}`);
    await settled(page);
    return { page, requests, complaints };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
    await rm(this.#home, { recursive: true, force: true });
  }
}

/** Until what was asked of the picture has been drawn. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate(
    'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))',
  );
}
