import type { Watch, WatchEvent, WatchHandler } from '@lockkeeper/core';

/**
 * A watch whose events can be made to wait, in order. It is over once: when its owner closes it, when it
 * ends below, or when it is ended here.
 */
export class FaultyWatch implements Watch {
  readonly #handler: WatchHandler;
  readonly #onOver: () => void;
  readonly #below: Watch;
  /** What waits behind events that are held back; `undefined` while nothing does. */
  #behind: (() => void | Promise<void>)[] | undefined;
  #over = false;

  /** @param gate asked before events are passed on: they wait for its promise, and the watch ends with its error. */
  constructor(
    open: (handler: WatchHandler) => Watch,
    handler: WatchHandler,
    gate: (events: readonly WatchEvent[]) => Promise<void> | undefined,
    onOver: () => void,
  ) {
    this.#handler = handler;
    this.#onOver = onOver;
    this.#below = open({
      onEvents: (events) => {
        this.#inTurn(() => {
          const opened = gate(events);
          if (opened === undefined) return this.#tell(events);
          return opened.then(() => this.#tell(events));
        });
      },
      onResumed: () => this.#inTurn(() => (this.#over ? undefined : handler.onResumed?.())),
      onEnd: (error) => this.#inTurn(() => this.end(error)),
    });
  }

  end(error: Error): void {
    if (!this.#finish()) return;
    this.#handler.onEnd(error);
  }

  close(): void {
    this.#finish();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #tell(events: readonly WatchEvent[]): void {
    if (!this.#over) this.#handler.onEvents(events);
  }

  /** Runs at once where nothing is held back, so that a watch without faults is as quick as the one below. */
  #inTurn(step: () => void | Promise<void>): void {
    if (this.#behind !== undefined) return void this.#behind.push(step);
    const waiting = step();
    if (waiting !== undefined) void this.#drain(waiting);
  }

  async #drain(first: Promise<void>): Promise<void> {
    const behind: (() => void | Promise<void>)[] = [];
    this.#behind = behind;
    try {
      await first;
      for (let next = behind.shift(); next !== undefined; next = behind.shift()) await next();
    } catch (error) {
      this.end(error instanceof Error ? error : new Error(String(error)));
    } finally {
      this.#behind = undefined;
    }
  }

  #finish(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#below.close();
    this.#onOver();
    return true;
  }
}
