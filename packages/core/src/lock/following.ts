import type { Timer } from '../clock.ts';
import type { Coordinator, KeySpan, Watch, WatchEvent } from '../coordinator/coordinator.ts';
import { AbortScope, type AbortSignalLike } from '../signals.ts';
import { BackOff } from './back-off.ts';

/** A safety net under a watch: without any event what it is of is read again this often. */
export const POLL_MS = 15_000;

/** Of what a picture is kept, and who keeps it. */
export interface Subject {
  readonly span: KeySpan;
  /** Whether anybody waits for what is still to come. */
  readonly isAwaited: boolean;
  /**
   * Makes the picture anew, linearizably, and returns its revision. Called again wherever it is in doubt whether the
   * events since are all, or are of the same history.
   */
  read(signal: AbortSignalLike): Promise<bigint>;
  onRead(): void;
  /** @param events - all of each of their revisions. */
  onEvents(events: readonly WatchEvent[]): void;
  /** It cannot be read. */
  onFailure(error: unknown): void;
}

/** Keeps a picture up to date for as long as anybody waits: by one read, and one watch from the next revision on. */
export class Following {
  readonly #coordinator: Coordinator;
  readonly #subject: Subject;
  readonly #scope = new AbortScope();
  #isReading = false;
  #watch: Watch | undefined;
  #poll: Timer | undefined;
  #backOff: BackOff | undefined;
  #heard = false;
  #resumed = false;

  constructor(coordinator: Coordinator, subject: Subject) {
    this.#coordinator = coordinator;
    this.#subject = subject;
  }

  /**
   * Whether the events come from another stream than those before, which may be of a member with another history: nobody
   * should be told anything by them before all is read again.
   */
  get isDoubtful(): boolean {
    return this.#resumed;
  }

  /** Sees to it that the picture is made, and kept while anybody waits. Returns whether it is being kept already. */
  start(): boolean {
    if (this.#watch !== undefined) return true;
    void this.readAgain();
    return false;
  }

  /** Never rejects. A read that is under way is as good: nothing was told since it began. */
  async readAgain(pause?: BackOff): Promise<void> {
    if (this.#isReading) return;
    const signal = this.#scope;
    this.#unwatch();
    this.#isReading = true;
    try {
      await pause?.wait(signal);
      const revision = await this.#subject.read(signal);
      signal.throwIfAborted();
      this.#isReading = false;
      this.#resumed = false;
      this.#subject.onRead();
      if (!signal.aborted && this.#subject.isAwaited) this.#follow(revision + 1n);
    } catch (error) {
      this.#isReading = false;
      if (!signal.aborted) this.#subject.onFailure(error);
    }
  }

  /** For good. */
  stop(): void {
    this.#scope.abort(new Error('nobody waits any more'));
    this.#unwatch();
  }

  get isStopped(): boolean {
    return this.#scope.aborted;
  }

  #follow(startRevision: bigint): void {
    this.#watch = this.#coordinator.watch(
      { ...this.#subject.span, startRevision },
      {
        onEvents: (events) => {
          this.#heard = true;
          this.#backOff = undefined;
          this.#subject.onEvents(events);
        },
        onResumed: () => {
          this.#resumed = true;
        },
        onEnd: () => {
          // A watch that ends at once, again and again, must not become a busy loop.
          this.#backOff ??= new BackOff(this.#coordinator.clock);
          void this.readAgain(this.#backOff);
        },
      },
    );
    this.#arm();
  }

  #arm(): void {
    this.#heard = false;
    const onTime = () => (this.#heard ? this.#arm() : void this.readAgain());
    // The session keeps the process alive for those who wait; this need not.
    this.#poll = this.#coordinator.clock.setTimer(POLL_MS, onTime, { ref: false });
  }

  #unwatch(): void {
    this.#poll?.cancel();
    this.#watch?.close();
    this.#watch = undefined;
  }
}
