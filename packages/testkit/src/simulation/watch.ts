import type { Watch, WatchEvent, WatchHandler, WatchRequest } from '@lockkeeper/core';
import { LockkeeperError } from '@lockkeeper/core';
import type { SimulatedConnection, Surroundings } from './connection.ts';
import type { Random } from './random.ts';

const AGAIN_MS = 200;

/**
 * A watch over streams that break. It keeps the port's promise: after a break it asks for the events from
 * the one after the last that it handed on, so none is lost and none comes twice.
 */
export class SimulatedWatch implements Watch {
  readonly #connection: SimulatedConnection;
  readonly #around: Surroundings;
  readonly #request: WatchRequest;
  readonly #handler: WatchHandler;
  readonly #onClosed: () => void;
  readonly #random: Random;
  #next: bigint;
  #stream = 0;
  #leave: (() => void) | undefined;
  #lastArrival = 0;
  #closed = false;

  constructor(
    connection: SimulatedConnection,
    around: Surroundings,
    request: WatchRequest,
    handler: WatchHandler,
    onClosed: () => void,
  ) {
    this.#connection = connection;
    this.#around = around;
    this.#request = request;
    this.#handler = handler;
    this.#onClosed = onClosed;
    this.#next = request.startRevision;
    this.#random = around.network.randomFor(connection.nextId());
    this.#connectIn(this.#random.between(0.1, 3));
  }

  /** The stream is gone, with what was under way on it. */
  break(): void {
    if (this.#closed) return;
    this.#disconnect();
    this.#connectIn(this.#random.between(1, AGAIN_MS));
  }

  /** For good, with an error that says why. */
  end(error: LockkeeperError): void {
    if (this.#closed) return;
    this.close();
    queueMicrotask(() => this.#handler.onEnd(error));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#disconnect();
    this.#onClosed();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #connectIn(ms: number): void {
    const { world } = this.#around;
    const stream = this.#stream;
    world.after(ms, () =>
      this.#connection.clock.deliver(() => {
        if (!this.#closed && stream === this.#stream) this.#connect();
      }),
    );
  }

  #connect(): void {
    const { etcd, network } = this.#around;
    if (!etcd.isServing || network.isCut(this.#connection.clock.name)) {
      this.#connectIn(AGAIN_MS);
      return;
    }
    const leaveServer = etcd.onStreamsBroken(() => this.break());
    if (this.#stream > 0) this.#handler.onResumed?.();
    const stop = etcd.watch(
      { ...this.#request, startRevision: this.#next },
      {
        onEvents: (events) => this.#carry(() => this.#handOn(events)),
        onEnd: (error) => this.#carry(() => this.#endOf(error)),
      },
    );
    this.#leave = () => {
      leaveServer();
      stop();
    };
  }

  #disconnect(): void {
    this.#stream += 1;
    this.#leave?.();
    this.#leave = undefined;
  }

  /** In order, as a stream is; not while the link is cut. */
  #carry(arrive: () => void): void {
    const { world, network } = this.#around;
    const { clock } = this.#connection;
    const stream = this.#stream;
    if (network.isCut(clock.name)) return void world.after(0, () => stream === this.#stream && this.break());
    this.#lastArrival = Math.max(this.#lastArrival, world.now + this.#random.between(0.1, 5));
    world.at(this.#lastArrival, () =>
      clock.deliver(() => {
        if (!this.#closed && stream === this.#stream) arrive();
      }),
    );
  }

  #handOn(events: readonly WatchEvent[]): void {
    const last = events.at(-1);
    if (last === undefined) return;
    this.#next = (last.type === 'put' ? last.kv.modRevision : last.modRevision) + 1n;
    this.#handler.onEvents(events);
  }

  #endOf(error: Error): void {
    if (error instanceof LockkeeperError && error.code === 'compacted') {
      this.#around.trace?.add(this.#connection.name, `watch ended: compacted`);
    }
    this.close();
    this.#handler.onEnd(error);
  }
}
