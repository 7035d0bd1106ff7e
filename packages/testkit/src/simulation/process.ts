import type { Clock, Timer } from '@lockkeeper/core';
import type { Random } from './random.ts';
import type { World } from './world.ts';

const EPOCH = Date.UTC(2000, 0, 1);
/** Node's timers are a little off, mostly late. */
const EARLIEST_MS = -0.5;
const LATEST_MS = 1.5;

interface PendingTimer {
  readonly dueAt: number;
  readonly fire: () => void;
}

interface Delivery {
  readonly kind: 'timer' | 'message';
  readonly act: () => void;
}

/**
 * One process, as its code sees the world: a clock of its own, which drifts, and nothing that happens to it
 * while it is stopped. After a stop the code that was interrupted goes on first; timers that are overdue and
 * messages that have come meanwhile follow one by one, in an order that differs from stop to stop.
 */
export class SimulatedProcess implements Clock {
  readonly name: string;
  /** Called when it goes on after a stop, before anything else of it runs. */
  onResume: () => void = () => {};
  /** True time since which it runs. */
  runningSince = 0;
  /** Whether its monotonic clock ever stood still. */
  wasSuspended = false;
  readonly #world: World;
  readonly #random: Random;
  readonly #rate: number;
  readonly #timers = new Set<PendingTimer>();
  #stops = 0;
  #dead = false;
  #suspensions = 0;
  #suspendedAt = 0;
  /** How long the monotonic clock has stood still so far. */
  #stoodStill = 0;
  #wallOffset = EPOCH;
  #interrupted: (() => void)[] = [];
  #backlog: Delivery[] = [];

  /** @param rate - how fast its clocks run; 1 is true time. */
  constructor(world: World, name: string, random: Random, rate: number) {
    this.name = name;
    this.#world = world;
    this.#random = random;
    this.#rate = rate;
  }

  get isRunning(): boolean {
    return this.#stops === 0 && !this.#dead;
  }

  get isDead(): boolean {
    return this.#dead;
  }

  get pendingTimers(): number {
    return this.#timers.size;
  }

  now(): number {
    const ranUntil = this.#suspensions > 0 ? this.#suspendedAt : this.#world.now;
    return (ranUntil - this.#stoodStill) * this.#rate;
  }

  wallTime(): number {
    return this.#wallOffset + this.#world.now * this.#rate;
  }

  random(): number {
    return this.#random.next();
  }

  setTimer(delayMs: number, fire: () => void): Timer {
    const timer = { dueAt: this.now() + Math.max(0, delayMs), fire };
    this.#timers.add(timer);
    this.#arm(timer);
    const cancel = () => void this.#timers.delete(timer);
    return { cancel, [Symbol.dispose]: cancel };
  }

  /** Something reaches the process from outside. */
  deliver(act: () => void): void {
    this.#deliver({ kind: 'message', act });
  }

  stepWallTime(byMs: number): void {
    this.#wallOffset += byMs;
  }

  /** Moves the monotonic clock on by a hair. */
  nudge(ms: number): void {
    this.#stoodStill -= ms;
  }

  /** No code of it runs from now on. With `suspend` its monotonic clock stands still too. */
  stop(options: { readonly suspend: boolean }): void {
    this.#stops += 1;
    if (options.suspend && this.#suspensions++ === 0) this.#suspendedAt = this.#world.now;
  }

  /** Undoes one `stop` of that kind. */
  resume(options: { readonly suspend: boolean }): void {
    if (options.suspend && --this.#suspensions === 0) {
      this.#stoodStill += this.#world.now - this.#suspendedAt;
      this.wasSuspended = true;
    }
    this.#stops -= 1;
    if (!this.isRunning) return;
    this.runningSince = this.#world.now;
    this.onResume();
    for (const goOn of this.#interrupted.splice(0)) goOn();
    const messagesFirst = this.#random.chance(0.5);
    const rank = ({ kind }: Delivery) => ((kind === 'message') === messagesFirst ? 0 : 1);
    const backlog = this.#backlog.splice(0).sort((a, b) => rank(a) - rank(b));
    for (const delivery of backlog) this.#world.after(0, () => this.#deliver(delivery));
  }

  /** Its code stands still in the middle of what it does, as in a long garbage collection, and goes on first. */
  stall(ms: number): Promise<void> {
    this.stop({ suspend: false });
    this.#world.after(ms, () => this.resume({ suspend: false }));
    return new Promise((resolve) => this.#interrupted.push(resolve));
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.setTimer(ms, resolve));
  }

  /** Ends at once and for good, as after SIGKILL. */
  kill(): void {
    this.#dead = true;
    this.#backlog = [];
    this.#timers.clear();
  }

  #arm(timer: PendingTimer): void {
    const dueIn = (timer.dueAt - this.now()) / this.#rate + this.#random.between(EARLIEST_MS, LATEST_MS);
    this.#world.after(Math.max(0, dueIn), () =>
      this.#deliver({ kind: 'timer', act: () => this.#fire(timer) }),
    );
  }

  #fire(timer: PendingTimer): void {
    if (!this.#timers.has(timer)) return;
    // The clock stood still in between.
    if (this.now() < timer.dueAt + EARLIEST_MS * 2) {
      this.#arm(timer);
      return;
    }
    this.#timers.delete(timer);
    timer.fire();
  }

  #deliver(delivery: Delivery): void {
    if (this.#dead) return;
    if (this.isRunning) delivery.act();
    else this.#backlog.push(delivery);
  }
}
