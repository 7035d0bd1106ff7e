// One pause of a worker at one point, from the order to the going on.
import { deferred, handled } from '../deferred.ts';
import { TestkitError } from '../errors.ts';
import { checkMs, invalid } from '../options.ts';
import type { Standstill } from './messages.ts';
import type { Freeze, RunningWorker } from './worker-host.ts';

/**
 * How a worker pauses:
 *
 * | | |
 * |---|---|
 * | `sigstop` | the process is stopped by SIGSTOP, every thread of it |
 * | `container` | its container is paused by the engine |
 * | `block-event-loop` | its JavaScript stands still, as by a long computation; other threads and the kernel go on |
 * | `wait` | only the code at the point waits: timers fire, leases are renewed |
 *
 * After all but `wait` the code behind the point runs before any timer that fell due meanwhile: it is as a pause
 * between two instructions.
 */
export type PauseHow = Freeze | 'block-event-loop' | 'wait';

export interface PauseOptions {
  /** Default: `sigstop`; in a container `container`. */
  readonly how?: PauseHow | undefined;
  /** With `block-event-loop`: goes on by itself after that time. Default: by `resume()` alone. */
  readonly forMs?: number | undefined;
}

export interface ReachedOptions {
  /** Default 30,000. */
  readonly timeoutMs?: number | undefined;
}

/** A pause that was ordered. Disposed, it is over: the worker goes on, or does not pause at that point any more. */
export interface Pause extends AsyncDisposable {
  readonly point: string;
  /**
   * Resolves when the worker has paused there.
   * @throws {@link TestkitError} `timeout`, or `not-running` when it ended before.
   */
  reached(options?: ReachedOptions): Promise<void>;
  /** Lets it go on. Idempotent; before the point is reached it takes the order back. */
  resume(): Promise<void>;
}

/** What a pause needs of its worker. */
export interface PauseSite {
  readonly name: string;
  readonly running: RunningWorker;
  /** Rejects with `not-running` or `timeout`, naming what was waited for. */
  within<T>(promise: Promise<T>, what: string, timeoutMs: number): Promise<T>;
  /** Ends the standstill. */
  goOn(id: number): void;
}

/** @throws TestkitError `invalid-option` */
export function checkPause(
  name: string,
  point: string,
  options: PauseOptions,
  freezes: readonly [Freeze, ...Freeze[]],
): void {
  if (typeof point !== 'string' || point === '') throw invalid('pauseAt: the point', point, 'its name');
  if (typeof options !== 'object' || options === null) throw invalid(`pauseAt: ${point}`, options, 'options');
  const { how, forMs } = options;
  const possible: readonly PauseHow[] = [...freezes, 'block-event-loop', 'wait'];
  if (!possible.includes(how ?? freezes[0])) {
    const message = `pauseAt: how is ${JSON.stringify(how)}; worker ${name} can pause by ${possible.join(', ')}`;
    throw new TestkitError('invalid-option', message);
  }
  if (forMs === undefined) return;
  if (how !== 'block-event-loop') {
    throw new TestkitError('invalid-option', `pauseAt: forMs is for how: 'block-event-loop', not ${how}`);
  }
  if (!(forMs > 0 && Number.isFinite(forMs))) {
    throw new TestkitError('invalid-option', `pauseAt: forMs is ${forMs}; expected a time above 0`);
  }
}

export const standstillOf = (how: PauseHow): Standstill => (how === 'wait' ? 'wait' : 'block');

export class OrderedPause implements Pause {
  readonly point: string;
  readonly id: number;
  readonly #how: PauseHow;
  readonly #site: PauseSite;
  readonly #paused = deferred<void>();
  #freezing: Promise<void> | undefined;
  #over = false;

  constructor(site: PauseSite, id: number, point: string, how: PauseHow) {
    this.#site = site;
    this.id = id;
    this.point = point;
    this.#how = how;
    void handled(this.#paused.promise);
  }

  get isOpen(): boolean {
    return !this.#over;
  }

  /** The worker stands still at the point. */
  arrived(): void {
    // Taken back while the worker was on its way.
    if (this.#over) {
      this.#site.goOn(this.id);
      return;
    }
    this.#freezing = handled(this.#freeze());
    this.#freezing.then(this.#paused.resolve, this.#paused.reject);
  }

  async #freeze(): Promise<void> {
    if (this.#how === 'sigstop' || this.#how === 'container') await this.#site.running.freeze(this.#how);
  }

  async reached(options: ReachedOptions = {}): Promise<void> {
    const timeoutMs = checkMs('timeoutMs', options.timeoutMs, 30_000);
    return this.#site.within(this.#paused.promise, `to the point "${this.point}"`, timeoutMs);
  }

  async resume(): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    this.#site.goOn(this.id);
    if (this.#freezing === undefined) return;
    await this.#freezing;
    if (this.#how === 'sigstop' || this.#how === 'container') await this.#site.running.thaw();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resume();
  }
}
