import { type Clock, systemClock, type Timer, type TimerOptions } from '@lockkeeper/core';

/**
 * The system's clock, as code sees it that does not run while it is frozen: time stands still for it, and timers
 * that fall due meanwhile fire when it goes on. Time jumps then, as after a pause of the process.
 */
export class FreezableClock implements Clock {
  readonly #overdue: (() => void)[] = [];
  #frozenAt: { readonly now: number; readonly wallTime: number } | undefined;

  now(): number {
    return this.#frozenAt?.now ?? systemClock.now();
  }

  wallTime(): number {
    return this.#frozenAt?.wallTime ?? systemClock.wallTime();
  }

  random(): number {
    return systemClock.random();
  }

  setTimer(delayMs: number, fire: () => void, options?: TimerOptions): Timer {
    let live = true;
    const act = () => {
      if (live) fire();
    };
    const due = () => void (this.#frozenAt === undefined ? act() : this.#overdue.push(act));
    const timer = systemClock.setTimer(delayMs, due, options);
    const cancel = () => {
      live = false;
      timer.cancel();
    };
    return { cancel, [Symbol.dispose]: cancel };
  }

  freeze(): void {
    this.#frozenAt ??= { now: systemClock.now(), wallTime: systemClock.wallTime() };
  }

  thaw(): void {
    this.#frozenAt = undefined;
    for (const act of this.#overdue.splice(0)) act();
  }
}
