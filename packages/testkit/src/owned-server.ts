import { mkdtempSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerHandle } from './containers/docker-api.ts';
import { TestkitError } from './errors.ts';
import type { ServerRoute } from './find-server.ts';
import { type EndSignal, forgetFolder, guardFolder } from './guardian.ts';
import { checkMs } from './options.ts';
import type { ServerProcess } from './server-process.ts';

export interface RestartOptions {
  /** Throw the data away, so that an empty server comes back at the same address. Default `false`. */
  readonly wipe?: boolean | undefined;
  /** How long the server stays away. Default 0. */
  readonly forMs?: number | undefined;
}

/** What every server of this package can be made to suffer. */
export interface TestServer extends AsyncDisposable {
  readonly version: string;
  readonly route: ServerRoute;
  /** Changes with every restart; `undefined` while it does not run, or is not ours. */
  readonly pid: number | undefined;
  /** The container that it runs in, if it does; another one after a wipe. */
  readonly container?: ContainerHandle | undefined;
  /**
   * Freezes it, with all its processes: by SIGSTOP, or by pausing its container. Resolves when nothing of it runs.
   * Connections stay open and the kernel goes on taking bytes for it.
   */
  pause(): Promise<void>;
  /** Ends the pause. A container goes on a moment later; where that fails, the next verb rejects. */
  resume(): void;
  /** SIGKILL. The data stay, and `restart()` brings it back. */
  kill(): Promise<void>;
  /** SIGKILL where it still runs, then a new start at the same address, with the same data unless wiped. */
  restart(options?: RestartOptions): Promise<void>;
  /** Ends it and removes its data. Idempotent. */
  stop(): Promise<void>;
}

export interface OwnedServerPlan {
  readonly name: string;
  /** Kept after the end when the caller named it. */
  readonly dataDir: string;
  readonly endSignal: EndSignal;
  /** Starts the program on the data, whatever they are, and resolves when it answers. */
  launch(): Promise<ServerProcess>;
  /** Called before data are removed, to remove what a killed program left elsewhere. */
  tidy?(): Promise<void>;
}

/** A server that this process started: at most one run of it is alive, and `stop()` ends them all. */
export class OwnedServer {
  readonly #plan: OwnedServerPlan;
  readonly #folder: TemporaryFolder;
  #run: ServerProcess;
  #stopped: Promise<void> | undefined;

  constructor(plan: OwnedServerPlan, folder: TemporaryFolder, run: ServerProcess) {
    this.#plan = plan;
    this.#folder = folder;
    this.#run = run;
  }

  get pid(): number | undefined {
    return this.#run.pid;
  }

  /** The end of its log, for messages. */
  get log(): string {
    return this.#run.log;
  }

  pause(): Promise<void> {
    return this.#run.pause();
  }

  resume(): void {
    this.#run.resume();
  }

  async kill(): Promise<void> {
    await this.#run.end('SIGKILL');
  }

  async restart(options: RestartOptions = {}): Promise<void> {
    const { dataDir } = this.#plan;
    const create = () => mkdir(dataDir, { recursive: true, mode: 0o700 });
    await this.#restart(options.wipe === true ? create : undefined, options);
  }

  /** Brings it back with other data. @param create makes the data folder, which is not there. */
  async restartOn(create: () => Promise<unknown>): Promise<void> {
    await this.#restart(create);
  }

  async #restart(create: (() => Promise<unknown>) | undefined, options: RestartOptions = {}): Promise<void> {
    this.#assertNotStopped();
    const forMs = checkMs('forMs', options.forMs, 0);
    await this.kill();
    if (create !== undefined) {
      await this.#plan.tidy?.();
      await rm(this.#plan.dataDir, { recursive: true, force: true });
      await create();
    }
    if (forMs > 0) await sleep(forMs);
    this.#assertNotStopped();
    this.#run = await this.#plan.launch();
    if (this.#stopped !== undefined) await this.#run.end(this.#plan.endSignal);
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#remove();
    return this.#stopped;
  }

  async #remove(): Promise<void> {
    await this.#run.end(this.#plan.endSignal);
    await this.#plan.tidy?.();
    await this.#folder.remove();
  }

  #assertNotStopped(): void {
    if (this.#stopped === undefined) return;
    throw new TestkitError('not-running', `${this.#plan.name} was stopped and cannot be restarted`);
  }
}

/** A folder of its own below the system's temporary one; gone after `remove()`, or with this process. */
export class TemporaryFolder {
  readonly path: string;

  constructor(prefix: string) {
    try {
      this.path = mkdtempSync(join(tmpdir(), prefix));
    } catch (cause) {
      const why = `no folder can be made below "${tmpdir()}" (TMPDIR): ${(cause as Error).message}`;
      throw new TestkitError('start-failed', why, { cause });
    }
    guardFolder(this.path);
  }

  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, maxRetries: 5 });
    forgetFolder(this.path);
  }
}

/** The verbs of a server that was found by its address and so is not ours to stop. */
export function foreignServer(
  name: string,
  address: string,
  version: string,
): Omit<TestServer, typeof Symbol.asyncDispose> & AsyncDisposable {
  const refuse = (verb: string) =>
    new TestkitError('not-ours', `${name} at ${address} was found by its address: it cannot be ${verb} here`);
  return {
    version,
    route: 'env',
    pid: undefined,
    pause: () => Promise.reject(refuse('paused')),
    resume: () => {
      throw refuse('resumed');
    },
    kill: () => Promise.reject(refuse('killed')),
    restart: () => Promise.reject(refuse('restarted')),
    stop: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
