import { setTimeout as sleep } from 'node:timers/promises';
import { TestkitError } from '../errors.ts';
import { freePorts } from '../free-ports.ts';
import type { RestartOptions, TestServer } from '../owned-server.ts';
import { Container, type ContainerPlan } from './container.ts';
import type { ContainerHandle } from './docker-api.ts';
import type { Engine } from './engine.ts';

export interface ContainerServerPlan {
  /** For messages: `etcd`. */
  readonly kind: string;
  /** The container to make; asked again after a wipe. */
  container(published: number): ContainerPlan | Promise<ContainerPlan>;
  /** Whether it serves. Called again and again until it does; may throw meanwhile. @returns its version */
  ready(published: number): Promise<string>;
}

const BIND_TRIES = 5;
const READY_WITHIN_MS = 60_000;

/**
 * A server in a container of this process, whose port on the host stays its own over restarts and wipes. Killed and
 * restarted it is the same container, with its data; wiped, a new one.
 */
export class ContainerServer {
  readonly #engine: Engine;
  readonly #plan: ContainerServerPlan;
  readonly port: number;
  #container: Container;
  #version = '';
  #resuming: Promise<unknown> = Promise.resolve();
  #stopped: Promise<void> | undefined;

  static async start(engine: Engine, plan: ContainerServerPlan, port?: number): Promise<ContainerServer> {
    for (let tries = 1; ; tries++) {
      const [published] = port === undefined ? ((await freePorts(1)) as [number]) : [port];
      const server = new ContainerServer(
        engine,
        plan,
        published,
        await Container.create(engine, await plan.container(published)),
      );
      try {
        await server.#launch();
        return server;
      } catch (error) {
        await server.stop();
        const isTaken =
          error instanceof TestkitError &&
          /already (in use|allocated)/.test(error.message) &&
          port === undefined;
        if (!isTaken || tries === BIND_TRIES) throw error;
      }
    }
  }

  private constructor(engine: Engine, plan: ContainerServerPlan, port: number, container: Container) {
    this.#engine = engine;
    this.#plan = plan;
    this.port = port;
    this.#container = container;
  }

  get version(): string {
    return this.#version;
  }

  get container(): Container {
    return this.#container;
  }

  async kill(): Promise<void> {
    await this.#resuming;
    await this.#container.kill();
  }

  async restart(options: RestartOptions = {}): Promise<void> {
    this.#assertNotStopped();
    await this.kill();
    if (options.wipe === true) {
      await this.#container.remove();
      this.#container = await Container.create(this.#engine, await this.#plan.container(this.port));
    }
    if (options.forMs !== undefined) await sleep(options.forMs);
    this.#assertNotStopped();
    await this.#launch();
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#remove();
    return this.#stopped;
  }

  /** The verbs that all servers have. @param tidy called once it has been removed */
  verbs(tidy?: () => Promise<void>): TestServer & { readonly container: ContainerHandle } {
    // A getter's `this` is the object that it stands in.
    const server = this;
    const stop = async () => {
      await this.stop();
      await tidy?.();
    };
    return {
      version: this.#version,
      route: 'container',
      get container() {
        return server.#container;
      },
      get pid() {
        return server.#container.pid;
      },
      pause: async () => {
        await this.#resuming;
        await this.#container.docker.pause();
      },
      resume: () => {
        this.#resuming = this.#container.docker.unpause();
        // Whoever asks for the next thing is told.
        this.#resuming.catch(() => undefined);
      },
      kill: () => this.kill(),
      restart: (options) => this.restart(options),
      stop,
      [Symbol.asyncDispose]: stop,
    };
  }

  async #launch(): Promise<void> {
    await this.#container.start();
    const deadline = performance.now() + READY_WITHIN_MS;
    for (;;) {
      try {
        this.#version = await this.#plan.ready(this.port);
        return;
      } catch (cause) {
        const { running, exitCode } = await this.#container.look();
        const isLate = performance.now() > deadline;
        if (running && !isLate) {
          await sleep(20);
          continue;
        }
        const how = running ? `was not ready within ${READY_WITHIN_MS} ms` : `ended (exit code ${exitCode})`;
        const log = (await this.#container.log()).trim().slice(-2_000);
        const why = `${this.#plan.kind} in ${this.#container.name} ${how}; its log ends with:\n${log}`;
        throw new TestkitError('start-failed', why, { cause });
      }
    }
  }

  async #remove(): Promise<void> {
    await Promise.allSettled([this.#resuming]);
    await this.#container.remove();
  }

  #assertNotStopped(): void {
    if (this.#stopped === undefined) return;
    throw new TestkitError('not-running', `${this.#plan.kind} was stopped and cannot be restarted`);
  }
}

/** The same object with more members; its getters stay getters. */
export function extended<T extends object, U extends object>(base: T, more: U): T & U {
  return Object.defineProperties(base, Object.getOwnPropertyDescriptors(more)) as T & U;
}
