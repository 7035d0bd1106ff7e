// The simulated hindrances: a gate that is shut while A does not run, or while its network passes nothing on.
import { setImmediate } from 'node:timers/promises';
import {
  type CallOptions,
  type Clock,
  type Coordinator,
  LockkeeperError,
  type Timer,
  type TimerOptions,
  type Watch,
  type WatchHandler,
  type WatchRequest,
} from '@lockkeeper/core';
import type { Guard } from '@lockkeeper/fencing';

/** What comes to a shut gate waits, and goes through in order when it opens. */
export class Gate {
  #waiting: (() => void)[] | undefined;

  get isShut(): boolean {
    return this.#waiting !== undefined;
  }

  shut(): void {
    this.#waiting ??= [];
  }

  /** Lets one after another through, each with all that follows from it before the next. */
  async open(): Promise<void> {
    for (let go = this.#waiting?.shift(); go !== undefined; go = this.#waiting?.shift()) {
      go();
      await setImmediate();
    }
    this.#waiting = undefined;
  }

  pass(go: () => void): void {
    if (this.#waiting === undefined) go();
    else this.#waiting.push(go);
  }

  passed(): Promise<void> {
    return new Promise((resolve) => this.pass(resolve));
  }
}

/** The clock as a process sees it that does not run while the gate is shut: overdue timers fire after that. */
export class StoppableClock implements Clock {
  readonly #clock: Clock;
  readonly #process: Gate;

  constructor(clock: Clock, process: Gate) {
    this.#clock = clock;
    this.#process = process;
  }

  now(): number {
    return this.#clock.now();
  }

  wallTime(): number {
    return this.#clock.wallTime();
  }

  random(): number {
    return this.#clock.random();
  }

  setTimer(delayMs: number, fire: () => void, options?: TimerOptions): Timer {
    let live = true;
    const timer = this.#clock.setTimer(delayMs, () => this.#process.pass(() => live && fire()), options);
    const cancel = () => {
      live = false;
      timer.cancel();
    };
    return { cancel, [Symbol.dispose]: cancel };
  }
}

export interface Gates {
  readonly process: Gate;
  readonly network: Gate;
}

/** The coordinator as A reaches it. What the network holds back arrives later; A does not wait that long. */
export function behindGates(
  coordinator: Coordinator,
  clock: Clock,
  { process, network }: Gates,
): Coordinator {
  const call = <T>({ timeoutMs = 5_000, signal }: CallOptions = {}, send: () => Promise<T>): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      const late = () => reject(new LockkeeperError('unreachable', 'no reply through the simulated network'));
      const timer = clock.setTimer(timeoutMs, late);
      const aborted = () => reject(signal?.reason);
      signal?.addEventListener('abort', aborted, { once: true });
      const settle = () => {
        timer.cancel();
        signal?.removeEventListener('abort', aborted);
      };
      network.pass(() => void send().then(resolve, reject).finally(settle));
    });
  return {
    clock,
    endpoints: () => coordinator.endpoints(),
    describe: (options) => coordinator.describe(options),
    grant: (request, options) => call(options, () => coordinator.grant(request)),
    renew: (lease, options) => call(options, () => coordinator.renew(lease)),
    timeToLive: (lease, options) => call(options, () => coordinator.timeToLive(lease)),
    revoke: (lease, options) => call(options, () => coordinator.revoke(lease)),
    txn: (txn, options) => call(options, () => coordinator.txn(txn)),
    range: (range, options) => call(options, () => coordinator.range(range)),
    watch: (request: WatchRequest, handler: WatchHandler): Watch =>
      coordinator.watch(request, {
        onEvents: (events) => process.pass(() => network.pass(() => handler.onEvents(events))),
        onEnd: (error) => process.pass(() => network.pass(() => handler.onEnd(error))),
      }),
    close: () => coordinator.close(),
    [Symbol.asyncDispose]: () => coordinator.close(),
  };
}

/** A guard as A reaches it. */
export function guardBehind<Handle>(guard: Guard<Handle>, arrived: () => Promise<void>): Guard<Handle> {
  return {
    resource: guard.resource,
    claim: async (token, options) => {
      await arrived();
      await guard.claim(token, options);
    },
    seal: async (token, options) => {
      await arrived();
      await guard.seal(token, options);
    },
    run: async (token, effect, options) => {
      await arrived();
      return guard.run(token, effect, options);
    },
  };
}
