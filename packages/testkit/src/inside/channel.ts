import { createConnection, type Socket } from 'node:net';
import { TestkitError } from '../errors.ts';
import { frameOf, readFrames, writeFrame } from '../worker/frames.ts';
import {
  type DownEnvelope,
  socketOf,
  type Typed,
  type UpEnvelope,
  WORKER_VARIABLE,
  type WorkerBirth,
  type WorkerMessage,
  wallTime,
} from '../worker/messages.ts';
import { PausePoints } from './pause-points.ts';

/** The worker's side of a process that `startWorker` started. */
export interface WorkerChannel<
  Messages extends Typed = WorkerMessage,
  Commands extends Typed = WorkerMessage,
> {
  /**
   * Tells the parent something, in order. Resolves when it was handed to the kernel: awaiting it matters
   * only before `process.exit`.
   */
  report(message: Messages): Promise<void>;
  /**
   * Calls `handler` for every message that the parent sends, those already waiting included. Keeps the
   * process alive until disposed. A handler that throws or rejects ends the process, as any uncaught error
   * does.
   */
  onCommand(handler: (message: Commands) => void | Promise<void>): Disposable;
}

/**
 * The way from a worker file to the parent that started it by `startWorker`, with the same types. One channel a
 * process. When the parent is gone the worker exits.
 * @throws {@link TestkitError} `not-running` in a process that `startWorker` did not start.
 */
export function workerChannel<
  Messages extends Typed = WorkerMessage,
  Commands extends Typed = WorkerMessage,
>(): WorkerChannel<Messages, Commands> {
  if (channel === undefined) {
    throw new TestkitError('not-running', 'this process was not started by startWorker()');
  }
  return channel as unknown as WorkerChannel<Messages, Commands>;
}

/**
 * A place at which a test may pause this process: see `Worker.pauseAt`. Where nobody ordered a pause here, or nobody
 * started this process as a worker, it returns at once. A pause happens once for each order.
 */
export function pausePoint(name: string): Promise<void> {
  return channel?.points.pass(name) ?? AT_ONCE;
}

/** @internal Calls `listener` with the name of every point that is passed, whether a pause was ordered or not. */
export function onPausePoint(listener: (name: string) => void): void {
  channel?.points.listen(listener);
}

const AT_ONCE = Promise.resolve();

class Channel implements WorkerChannel<Typed, Typed> {
  readonly points: PausePoints;
  readonly #socket: Socket;
  readonly #commands: Typed[] = [];
  #handler: ((message: Typed) => void | Promise<void>) | undefined;

  constructor(birth: WorkerBirth) {
    this.#socket = createConnection(socketOf(birth.folder));
    // With or without an error it is closed after that.
    this.#socket.on('error', () => {});
    this.#socket.once('close', () => process.exit());
    readFrames<DownEnvelope>(this.#socket, (envelope) => this.#take(envelope));
    this.points = new PausePoints(birth, {
      arrive: (id) => this.#send({ up: 'point', atMs: wallTime(), id }),
      waiting: () => this.#keepAliveWhileWaiting(),
    });
    this.#keepAliveWhileWaiting();
  }

  // Bound, so that a worker can say `const { report, onCommand } = workerChannel()`.
  readonly report = (message: Typed): Promise<void> => {
    return this.#send({ up: 'report', atMs: wallTime(), message });
  };

  readonly onCommand = (handler: (message: Typed) => void | Promise<void>): Disposable => {
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

  #take(envelope: DownEnvelope): void {
    switch (envelope.down) {
      case 'pause-at':
        this.points.order(envelope.order);
        break;
      case 'go-on':
        this.points.goOn(envelope.id);
        break;
      case 'command':
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
    if (this.#handler !== undefined || this.points.waits) this.#socket.ref();
    else this.#socket.unref();
  }

  async #send(envelope: UpEnvelope): Promise<void> {
    const frame = frameOf(envelope);
    try {
      await writeFrame(this.#socket, frame);
    } catch (error) {
      // Without a parent this process is about to exit, and nobody waits.
      if (!this.#socket.destroyed) throw error;
    }
  }
}

/** From the first line on, since orders may come at any time. */
function openChannel(): Channel | undefined {
  const birth = process.env[WORKER_VARIABLE];
  if (birth === undefined) return undefined;
  // What this process starts is no worker of our parent.
  delete process.env[WORKER_VARIABLE];
  return new Channel(JSON.parse(birth) as WorkerBirth);
}

// Last, when what it uses is there.
const channel = openChannel();
