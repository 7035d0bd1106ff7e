// Where workers run: as processes of this machine, or in containers. A host starts, stops and ends them; what
// they say goes over a socket that it only has to make reachable.
import type { ContainerHandle } from '../containers/docker-api.ts';
import type { ProcessExit } from '../server-process.ts';

export interface WorkerHost {
  /** @throws TestkitError `start-failed` */
  launch(plan: WorkerPlan): Promise<RunningWorker>;
}

export interface WorkerPlan {
  /** For messages and logs. */
  readonly name: string;
  /** The file to run, as an absolute path of this machine. */
  readonly file: string;
  readonly args: readonly string[];
  /** On top of what the host gives its workers anyway; `undefined` takes a variable out. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Options of Node. */
  readonly execArgv: readonly string[];
  /** Holds the socket and further files: the worker must find it, writable, under this same path. */
  readonly folder: string;
  readonly onOutput: (stream: 'stdout' | 'stderr', text: string) => void;
}

/** How nothing of a worker runs any more: by a signal to its processes, or by its container's freezer. */
export type Freeze = 'sigstop' | 'container';

export interface RunningWorker {
  /** The container, if it runs in one. */
  readonly container?: ContainerHandle | undefined;
  /** The process, as this machine numbers it. */
  readonly pid: number;
  /** What it can be frozen by; the first is the default. */
  readonly freezes: readonly [Freeze, ...Freeze[]];
  /** Resolves, never rejects, when it has ended and its output is complete. */
  readonly exited: Promise<ProcessExit>;
  /** Resolves when nothing of it runs any more. */
  freeze(how: Freeze): Promise<void>;
  /** Undoes every freeze. Resolves when it runs, or may run. */
  thaw(): Promise<void>;
  /** Sends a signal. A frozen worker is thawed, unless the signal is SIGKILL, which must work on it as it is. */
  kill(signal: NodeJS.Signals): Promise<void>;
}
