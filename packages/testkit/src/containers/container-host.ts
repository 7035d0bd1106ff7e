import { constants } from 'node:os';
import { relative, resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import { TestkitError } from '../errors.ts';
import type { ProcessExit } from '../server-process.ts';
import type { RunningWorker, WorkerHost, WorkerPlan } from '../worker/worker-host.ts';
import { Container } from './container.ts';
import type { Engine } from './engine.ts';
import type { ContainerNetwork } from './network.ts';
import { imageOf, requireEngine } from './route.ts';

export interface ContainerHostOptions {
  /** Has `node` on its PATH. Default: what `LOCKKEEPER_WORKER_IMAGE` names, else the public one of Node 20. */
  readonly image?: string | undefined;
  /**
   * The networks that workers are on; the others on them are reached by `container.name`. Default: that of the engine's
   * machine, where on Linux addresses mean the same as outside.
   */
  readonly networks?: readonly ContainerNetwork[] | undefined;
  /** Folders that workers see, read-only, under the same paths. Default: the working folder of this process. */
  readonly mounts?: readonly string[] | undefined;
}

/**
 * Workers that run in containers, for the option `host` of `startWorker` and of `lateWriteDrill`. They are frozen by the
 * engine's freezer, as `docker pause` does. They see none of our environment but what their options name, and end
 * with this process, in whatever way that ends.
 *
 * The engine must run on this machine: it lends workers this machine's folders. How a worker ended is told by its exit
 * code, where one above 128 stands for a signal.
 *
 * `launch` rejects with {@link TestkitError} `no-server` where no engine answers.
 */
export function containerHost(options: ContainerHostOptions = {}): WorkerHost {
  return {
    async launch(plan) {
      const mounts = (options.mounts ?? [process.cwd()]).map((path) => resolve(path));
      if (!mounts.some((mount) => !relative(mount, plan.file).startsWith('..'))) {
        const message = `worker ${plan.name}: ${plan.file} is in none of the mounts ${mounts.join(', ')}`;
        throw new TestkitError('invalid-option', message);
      }
      const engine = await requireEngine();
      const container = await Container.create(engine, {
        kind: 'worker',
        image: imageOf('worker', options.image, undefined),
        command: ['node', ...plan.execArgv, plan.file, ...plan.args],
        env: Object.fromEntries(
          Object.entries(plan.env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
        ),
        networks: options.networks?.length ? options.networks : 'host',
        extra: {
          WorkingDir: mounts[0],
          // Signals that a process does not handle reach it only where it is not the first one.
          HostConfig: {
            Init: true,
            Binds: [...mounts.map((path) => `${path}:${path}:ro`), `${plan.folder}:${plan.folder}`],
          },
        },
      });
      try {
        return await ContainedWorker.start(engine, container, plan);
      } catch (error) {
        await container.remove();
        throw error;
      }
    },
  };
}

class ContainedWorker implements RunningWorker {
  readonly freezes = ['container'] as const;
  readonly container: Container;
  readonly pid: number;
  readonly exited: Promise<ProcessExit>;
  #frozen = false;

  static async start(engine: Engine, container: Container, plan: WorkerPlan): Promise<ContainedWorker> {
    // Before the start, so that nothing of its output is missed.
    const output = await container.docker.attach({ stream: true, stdout: true, stderr: true });
    const streams = { stdout: new PassThrough(), stderr: new PassThrough() };
    for (const name of ['stdout', 'stderr'] as const) {
      streams[name].setEncoding('utf8').on('data', (text: string) => plan.onOutput(name, text));
    }
    engine.api.modem.demuxStream(output, streams.stdout, streams.stderr);
    await container.start();
    return new ContainedWorker(container, finished(output, { writable: false }));
  }

  private constructor(container: Container, written: Promise<void>) {
    this.container = container;
    this.pid = container.pid ?? 0;
    this.exited = this.#end(written);
  }

  async freeze(): Promise<void> {
    await this.container.docker.pause();
    this.#frozen = true;
  }

  async thaw(): Promise<void> {
    if (!this.#frozen) return;
    this.#frozen = false;
    await this.container.docker.unpause();
  }

  async kill(name: NodeJS.Signals): Promise<void> {
    if (name === 'SIGKILL') await this.container.kill();
    else {
      await this.thaw();
      await this.container.docker.kill({ signal: name });
    }
  }

  /** Its exit code is asked for before it is gone. */
  async #end(written: Promise<void>): Promise<ProcessExit> {
    try {
      const { StatusCode: code } = await this.container.docker.wait();
      await written;
      const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
      return signal === undefined ? { code, signal: null } : { code: null, signal: signal as NodeJS.Signals };
    } finally {
      await this.container.remove();
    }
  }
}
