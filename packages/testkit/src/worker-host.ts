import type { ProcessExit } from './server-process.ts';
import type { DownEnvelope, UpEnvelope } from './worker-message.ts';

/** Called with what comes from a worker, in order. */
export interface WorkerListener {
  onEnvelope(envelope: UpEnvelope): void;
  onStdout(text: string): void;
  onStderr(text: string): void;
}

/** What a worker runs in: a process of this machine, or one in a container. */
export interface WorkerHost {
  readonly pid: number;
  /** Whether the whole worker stands still. */
  readonly isPaused: boolean;
  /** Called once, at the start. Resolves, never rejects, when the worker has ended and its output is complete. */
  listen(listener: WorkerListener): Promise<ProcessExit>;
  send(envelope: DownEnvelope): void;
  /** Resolves when nothing of it runs any more. */
  pause(): Promise<void>;
  /** Ends a pause, and a stop that the worker brought about itself. */
  resume(): void;
  /** Resolves when the worker has stopped itself by SIGSTOP. */
  untilFrozen(): Promise<void>;
  /** Sends a signal, to be acted on even by a worker that is paused. Nothing happens to one that has ended. */
  kill(name: NodeJS.Signals): void;
}
