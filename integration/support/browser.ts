import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Chromium } from './chromium.ts';

/** From the Chrome DevTools Protocol, as far as tests of pages use it. */
type Json = Readonly<Record<string, unknown>>;

interface Reply {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly params?: Json;
  readonly result?: Json;
  readonly error?: { readonly message: string };
}

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
  '--hide-scrollbars',
  '--remote-debugging-pipe',
];

/** A headless browser of its own, spoken to over two pipes: no port is opened. */
export class Browser implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #home: string;
  readonly #waiting = new Map<number, { resolve(result: Json): void; reject(error: Error): void }>();
  readonly #listeners = new Map<string, (method: string, params: Json) => void>();
  readonly #ended: Promise<unknown>;
  #lastId = 0;

  private constructor(child: ChildProcess, home: string) {
    this.#child = child;
    this.#home = home;
    let rest = '';
    (child.stdio[4] as Readable).setEncoding('utf8').on('data', (text: string) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop() ?? '';
      for (const message of messages) this.#take(JSON.parse(message) as Reply);
    });
    this.#ended = once(child, 'close').then(([code, signal]) => {
      for (const { reject } of this.#waiting.values())
        reject(new Error(`the browser ended: ${signal ?? code}`));
    });
  }

  static async start({ bin, libDir, fontsDir }: Chromium): Promise<Browser> {
    const home = await mkdtemp(join(tmpdir(), 'lockkeeper-browser-'));
    const fonts = join(home, 'fonts.conf');
    const cache = `<cachedir>${join(home, 'fonts')}</cachedir>`;
    await writeFile(fonts, `<fontconfig><dir>${fontsDir}</dir>${cache}</fontconfig>`);
    const own = {
      ...(libDir && { LD_LIBRARY_PATH: libDir }),
      ...(fontsDir && { FONTCONFIG_FILE: fonts }),
    };
    const child = spawn(bin, [...FLAGS, `--user-data-dir=${join(home, 'profile')}`], {
      env: { ...process.env, ...own, HOME: home },
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    });
    return new Browser(child, home);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Killed, it would leave processes of its own behind for a moment, which write into its folder.
    await Promise.race([this.send('Browser.close'), this.#ended]);
    await this.#ended;
    await rm(this.#home, { recursive: true, force: true, maxRetries: 3 });
  }

  send(method: string, params: Json = {}, sessionId?: string): Promise<Json> {
    this.#lastId += 1;
    const id = this.#lastId;
    (this.#child.stdio[3] as Writable).write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** Opens a file, and waits until it is loaded. */
  async open(file: string, size: { readonly width: number; readonly height: number }): Promise<BrowserPage> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new BrowserPage((method, params) => this.send(method, params, String(sessionId)));
    this.#listeners.set(String(sessionId), (method, params) => page.take(method, params));
    await page.load(file, size);
    return page;
  }

  #take({ id, sessionId, method, params = {}, result = {}, error }: Reply): void {
    const waiter = id === undefined ? undefined : this.#waiting.get(id);
    if (id === undefined) this.#listeners.get(sessionId ?? '')?.(method ?? '', params);
    else this.#waiting.delete(id);
    if (error === undefined) waiter?.resolve(result);
    else waiter?.reject(new Error(error.message));
  }
}

/** One tab. */
export class BrowserPage {
  /** What the page asked of the network or the disk, its own file included. */
  readonly requests: string[] = [];
  /** Errors and warnings, of scripts and of the browser. */
  readonly complaints: string[] = [];
  readonly #send: (method: string, params?: Json) => Promise<Json>;
  readonly #loaded: Promise<void>;
  #tellLoaded = () => {};

  constructor(send: (method: string, params?: Json) => Promise<Json>) {
    this.#send = send;
    this.#loaded = new Promise((resolve) => {
      this.#tellLoaded = resolve;
    });
  }

  take(method: string, params: Json): void {
    if (method === 'Page.loadEventFired') this.#tellLoaded();
    if (method === 'Network.requestWillBeSent')
      this.requests.push((params['request'] as { url: string }).url);
    const isComplaint = ['Runtime.exceptionThrown', 'Runtime.consoleAPICalled', 'Log.entryAdded'].includes(
      method,
    );
    if (isComplaint) this.complaints.push(JSON.stringify(params));
  }

  async load(file: string, size: { readonly width: number; readonly height: number }): Promise<void> {
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.#send(`${domain}.enable`);
    await this.resize(size);
    await this.#send('Page.navigate', { url: `file://${file}` });
    await this.#loaded;
    await this.settled();
  }

  async resize(size: { readonly width: number; readonly height: number }): Promise<void> {
    await this.#send('Emulation.setDeviceMetricsOverride', { ...size, deviceScaleFactor: 1, mobile: false });
    await this.settled();
  }

  /** `media`: screen or print; empty: whatever it is. */
  async emulate(media: string, colours: 'light' | 'dark' = 'light'): Promise<void> {
    const features = [{ name: 'prefers-color-scheme', value: colours }];
    await this.#send('Emulation.setEmulatedMedia', { media, features });
    await this.settled();
  }

  /** The value of an expression. */
  async evaluate<T>(expression: string): Promise<T> {
    const asked = { expression, returnByValue: true, awaitPromise: true };
    const { result, exceptionDetails } = await this.#send('Runtime.evaluate', asked);
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value: T }).value;
  }

  /** Until what was asked of the picture has been drawn. */
  async settled(): Promise<void> {
    await this.evaluate(
      'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))',
    );
  }

  async key(key: string): Promise<void> {
    const text = key.length === 1 ? { text: key } : {};
    await this.#send('Input.dispatchKeyEvent', { type: 'keyDown', key, ...text });
    await this.#send('Input.dispatchKeyEvent', { type: 'keyUp', key });
    await this.settled();
  }

  async mouse(type: string, at: { readonly x: number; readonly y: number }, more: Json = {}): Promise<void> {
    await this.#send('Input.dispatchMouseEvent', { type, ...at, ...more });
    await this.settled();
  }

  async png(): Promise<Buffer> {
    const { data } = await this.#send('Page.captureScreenshot', {
      format: 'png',
      captureBeyondViewport: true,
    });
    return Buffer.from(String(data), 'base64');
  }

  async pdf(): Promise<Buffer> {
    const { data } = await this.#send('Page.printToPDF', { preferCSSPageSize: true, printBackground: true });
    return Buffer.from(String(data), 'base64');
  }
}
