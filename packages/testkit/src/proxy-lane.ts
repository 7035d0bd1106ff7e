import type { Socket } from 'node:net';
import { resetSocket } from './reset-socket.ts';

/** Taken when the file is loaded: a network goes on while a test's fake timers stand still. */
const { setTimeout, clearTimeout, performance } = globalThis;

/** `request`: from the client to the server. */
export type ProxyDirection = 'request' | 'reply';

/** What a lane asks on the way. Both may take their time: what follows on the lane waits behind. */
export interface LaneControl {
  /** How long after its arrival a chunk may leave, in milliseconds. */
  latencyMs(): number;
  /** How many bytes may pass a second; `Infinity`: as many as come. */
  bytesPerSecond(): number;
  /** Called before each chunk is passed on, in order. @returns whether to pass it on, or to lose it. */
  admit(chunk: Buffer): Promise<boolean>;
  /** Resolves while traffic may flow. */
  open(): Promise<void>;
  /** Called for each chunk in the end: `delivered` is false where it was lost, or nobody takes it any more. */
  settled(chunk: Buffer, delivered: boolean): void;
}

/** How a lane passes on that its source was reset. */
export type ResetPolicy = 'as fin' | 'as reset';

type Item =
  | { readonly kind: 'chunk'; readonly chunk: Buffer; readonly arrivedAt: number }
  | { readonly kind: 'end'; readonly how: 'fin' | 'reset'; readonly arrivedAt: number };

const READ_AHEAD_BYTES = 4 * 1024 * 1024;
/** A slow link passes on what takes it so long at once. */
const SLICE_S = 0.02;

/**
 * One direction of one connection. What the source has sent reaches the sink in order, and then its end
 * does: also when the source is long gone by the time the bytes may leave.
 */
export class ProxyLane {
  /** Resolves when the end was passed on, or the lane was emptied. */
  readonly done: Promise<void>;
  readonly #source: Socket;
  readonly #sink: Socket;
  readonly #control: LaneControl;
  readonly #queue: Item[] = [];
  #queuedBytes = 0;
  #sawEnd = false;
  #abandoned = false;
  #onAbandon: (() => void) | undefined;
  #wake: (() => void) | undefined;
  #alarm: (() => void) | undefined;
  /** When the link has passed on what it was given. */
  #freeAt = 0;

  constructor(source: Socket, sink: Socket, onReset: ResetPolicy, control: LaneControl) {
    this.#source = source;
    this.#sink = sink;
    this.#control = control;
    source.on('data', (chunk: Buffer) => this.#arrive(chunk));
    source.once('end', () => this.#arriveEnd('fin'));
    source.on('error', () => this.#arriveEnd(onReset === 'as fin' ? 'fin' : 'reset'));
    source.once('close', () => this.#arriveEnd('fin'));
    const abandoned = new Promise<void>((resolve) => {
      this.#onAbandon = resolve;
    });
    this.done = Promise.race([this.#run(), abandoned]);
  }

  /** Forgets what has not been passed on, also what is being held. */
  abandon(): void {
    this.#abandoned = true;
    this.#queue.length = 0;
    this.#onAbandon?.();
    this.#wake?.();
    this.#alarm?.();
  }

  /** Latency or bandwidth have changed: what waits for them looks again. */
  reconsider(): void {
    this.#alarm?.();
  }

  #arrive(chunk: Buffer): void {
    this.#queue.push({ kind: 'chunk', chunk, arrivedAt: performance.now() });
    this.#queuedBytes += chunk.length;
    if (this.#queuedBytes > READ_AHEAD_BYTES) this.#source.pause();
    this.#wake?.();
  }

  #arriveEnd(how: 'fin' | 'reset'): void {
    if (this.#sawEnd) return;
    this.#sawEnd = true;
    this.#queue.push({ kind: 'end', how, arrivedAt: performance.now() });
    this.#wake?.();
  }

  async #run(): Promise<void> {
    while (!this.#abandoned) {
      const item = this.#queue.shift();
      if (item === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      await this.#until(() => item.arrivedAt + this.#control.latencyMs());
      await this.#control.open();
      if (item.kind === 'chunk') await this.#pass(item.chunk);
      else if (item.how === 'reset') return resetSocket(this.#sink);
      else return void this.#sink.end();
    }
  }

  async #pass(chunk: Buffer): Promise<void> {
    const admitted = await this.#control.admit(chunk);
    await this.#control.open();
    this.#control.settled(chunk, admitted && (await this.#write(chunk)));
    this.#queuedBytes -= chunk.length;
    if (this.#queuedBytes <= READ_AHEAD_BYTES) this.#source.resume();
  }

  /** @returns false where nobody takes it any more. */
  async #write(chunk: Buffer): Promise<boolean> {
    for (let start = 0; start < chunk.length; ) {
      const slice = chunk.subarray(start, start + SLICE_S * this.#control.bytesPerSecond() + 1);
      const begun = Math.max(this.#freeAt, performance.now());
      const end = () => begun + (slice.length / this.#control.bytesPerSecond()) * 1_000;
      await this.#until(end);
      this.#freeAt = end();
      await this.#control.open();
      if (!(await this.#hand(slice))) return false;
      start += slice.length;
    }
    return true;
  }

  /** Waits for a moment that may be moved meanwhile. */
  async #until(moment: () => number): Promise<void> {
    for (let waitMs = moment() - performance.now(); waitMs > 0 && !this.#abandoned; ) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(waitMs, 2 ** 31 - 1));
        this.#alarm = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      waitMs = moment() - performance.now();
    }
  }

  #hand(slice: Buffer): Promise<boolean> {
    const sink = this.#sink;
    if (this.#abandoned || sink.destroyed || sink.writableEnded) return Promise.resolve(false);
    return new Promise((resolve) => {
      const onClose = () => resolve(false);
      sink.once('close', onClose);
      sink.write(slice, (error) => {
        sink.off('close', onClose);
        resolve(error === null || error === undefined);
      });
    });
  }
}
