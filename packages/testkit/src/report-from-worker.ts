import { TestkitError } from './errors.ts';
import { type DownEnvelope, type UpEnvelope, type WorkerMessage, wallTime } from './worker-message.ts';

/** The worker's side of a process that `startWorker` started. */
export interface WorkerChannel {
  /**
   * Tells the parent something, in order. Resolves when it was handed to the kernel: awaiting it matters
   * only before `process.exit`.
   */
  report(message: WorkerMessage): Promise<void>;
  /**
   * Calls `handler` for every message that the parent sends, those already waiting included. Keeps the
   * process alive until disposed. A handler that throws or rejects ends the process, as any uncaught error
   * does.
   */
  onCommand(handler: (message: WorkerMessage) => void | Promise<void>): Disposable;
  /**
   * Tells the parent that this named point is reached, and goes on when it says `proceed(name)`. The
   * process runs meanwhile: timers fire, leases are renewed.
   */
  pauseHere(name: string): Promise<void>;
  /**
   * Tells the parent that this named point is reached and stops the whole process there by SIGSTOP, until
   * the parent says `resume()`. The code after `await freezeHere(name)` runs before any timer that fell due
   * meanwhile: it is as a pause between two instructions.
   */
  freezeHere(name: string): Promise<void>;
}

let channel: Channel | undefined;

/**
 * The way from a worker file to the parent that started it by `startWorker`. One channel a process. When
 * the parent is gone the worker exits.
 * @throws {@link TestkitError} `not-running` in a process that `startWorker` did not start.
 */
export function reportFromWorker(): WorkerChannel {
  channel ??= new Channel();
  return channel;
}

class Channel implements WorkerChannel {
  readonly #commands: WorkerMessage[] = [];
  readonly #paused = new Map<string, () => void>();
  #handler: ((message: WorkerMessage) => void | Promise<void>) | undefined;

  constructor() {
    if (process.send === undefined) {
      throw new TestkitError('not-running', 'this process was not started by startWorker()');
    }
    process.on('message', (envelope: DownEnvelope) => this.#take(envelope));
    process.once('disconnect', () => process.exit());
    this.#keepAliveWhileWaiting();
  }

  // Bound, so that a worker can say `const { report, pauseHere } = reportFromWorker()`.
  readonly report = (message: WorkerMessage): Promise<void> => {
    return this.#send({ up: 'report', atMs: wallTime(), message });
  };

  readonly onCommand = (handler: (message: WorkerMessage) => void | Promise<void>): Disposable => {
    if (this.#handler !== undefined) throw new TestkitError('invalid-option', 'onCommand: already called');
    this.#handler = handler;
    this.#keepAliveWhileWaiting();
    // Later, so that what the handler needs can be set up in this turn.
    setImmediate(() => this.#dispatch());
    return {
      [Symbol.dispose]: () => {
        if (this.#handler === handler) this.#handler = undefined;
        this.#keepAliveWhileWaiting();
      },
    };
  };

  readonly pauseHere = async (name: string): Promise<void> => {
    const proceed = new Promise<void>((resolve) => this.#paused.set(name, resolve));
    this.#keepAliveWhileWaiting();
    await this.#send({ up: 'point', atMs: wallTime(), name });
    await proceed;
    this.#paused.delete(name);
    this.#keepAliveWhileWaiting();
  };

  readonly freezeHere = async (name: string): Promise<void> => {
    await this.#send({ up: 'point', atMs: wallTime(), name });
    process.kill(process.pid, 'SIGSTOP');
  };

  #take(envelope: DownEnvelope): void {
    if (envelope.down === 'proceed') {
      this.#paused.get(envelope.name)?.();
    } else {
      this.#commands.push(envelope.message);
      this.#dispatch();
    }
  }

  #dispatch(): void {
    while (this.#handler !== undefined) {
      const command = this.#commands.shift();
      if (command === undefined) return;
      // In a promise of its own, so that an error is uncaught and ends the process.
      void Promise.resolve(command).then(this.#handler);
    }
  }

  #keepAliveWhileWaiting(): void {
    const waits = this.#handler !== undefined || this.#paused.size > 0;
    if (waits) process.channel?.ref();
    else process.channel?.unref();
  }

  #send(envelope: UpEnvelope): Promise<void> {
    return new Promise((resolve, reject) => {
      process.send?.(envelope, undefined, {}, (error: Error | null) => {
        if (error === null) resolve();
        // Without a parent this process is about to exit, and nobody waits.
        else if (process.connected) reject(error);
      });
    });
  }
}
