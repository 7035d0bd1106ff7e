import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { resetSocket } from './reset-socket.ts';

/** `request`: from the client to the server. */
export type ProxyDirection = 'request' | 'reply';

/** What a lane asks on the way. Both may take their time: what follows on the lane waits behind. */
export interface LaneControl {
  /** How long after its arrival a chunk may leave, in milliseconds. */
  latencyMs(): number;
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
      const waitMs = item.arrivedAt + this.#control.latencyMs() - performance.now();
      if (waitMs > 0) await sleep(waitMs);
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
  #write(chunk: Buffer): Promise<boolean> {
    const sink = this.#sink;
    if (this.#abandoned || sink.destroyed || sink.writableEnded) return Promise.resolve(false);
    return new Promise((resolve) => {
      const onClose = () => resolve(false);
      sink.once('close', onClose);
      sink.write(chunk, (error) => {
        sink.off('close', onClose);
        resolve(error === null || error === undefined);
      });
    });
  }
}
