import { TestkitError } from '../errors.ts';
import { type ContainerHandle, type DockerContainer, ignoring } from './docker-api.ts';
import { type Engine, nameFor } from './engine.ts';
import { type ContainerNetwork, SharedNetwork } from './network.ts';

export interface ContainerPlan {
  /** For messages: `etcd`. */
  readonly kind: string;
  readonly image: string;
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The port inside, and the one on the host where it is published. */
  readonly port?: { readonly inside: number; readonly published: number } | undefined;
  /** Default: one that this process shares among its containers. `host`: that of the engine's machine. */
  readonly networks?: readonly ContainerNetwork[] | 'host' | undefined;
  readonly name?: string | undefined;
  /** Further fields of the API's request. */
  readonly extra?: { readonly HostConfig?: object } & Record<string, unknown>;
}

/** One container that this process made: it, and its data, are gone after `remove()`. */
export class Container implements ContainerHandle {
  readonly id: string;
  readonly name: string;
  readonly docker: DockerContainer;
  readonly #engine: Engine;
  readonly #shared: SharedNetwork | undefined;
  #pid: number | undefined;

  /** Makes it and does not start it. @throws TestkitError `start-failed` */
  static async create(engine: Engine, plan: ContainerPlan): Promise<Container> {
    await engine.pull(plan.image);
    const { networks } = plan;
    const shared = networks?.length ? undefined : await SharedNetwork.join(engine);
    try {
      const [first, ...others] = networks === 'host' ? [] : networks?.length ? networks : [shared?.network];
      const name = plan.name ?? nameFor(plan.kind);
      const docker = await refusable(
        plan,
        engine.api.createContainer(await requestOf(engine, plan, name, first?.name ?? 'host')),
      );
      engine.guard('containers', docker.id);
      const container = new Container(engine, docker, name, shared);
      for (const network of others) await network?.connect({ container });
      return container;
    } catch (error) {
      await shared?.leave();
      throw error;
    }
  }

  private constructor(
    engine: Engine,
    docker: DockerContainer,
    name: string,
    shared: SharedNetwork | undefined,
  ) {
    this.#engine = engine;
    this.docker = docker;
    this.id = docker.id;
    this.name = name;
    this.#shared = shared;
  }

  /** That of its first process, as the engine's machine counts; `undefined` while it does not run. */
  get pid(): number | undefined {
    return this.#pid;
  }

  /** @throws TestkitError `start-failed`, also where its port was taken meanwhile. */
  async start(): Promise<void> {
    try {
      await this.docker.start();
    } catch (cause) {
      throw new TestkitError('start-failed', `${this.name} did not start: ${(cause as Error).message}`, {
        cause,
      });
    }
    await this.look();
  }

  /** What the engine says of it now. */
  async look(): Promise<{ readonly running: boolean; readonly exitCode: number }> {
    const { State } = await this.docker.inspect();
    this.#pid = State.Running ? State.Pid : undefined;
    return { running: State.Running, exitCode: State.ExitCode };
  }

  /** SIGKILL, also of one that is paused. Resolves when it has ended; nothing happens to one that had. */
  async kill(): Promise<void> {
    const { State } = await this.docker.inspect();
    if (State.Running) {
      const ended = this.docker.wait();
      await Promise.all([ended, this.docker.kill().catch(ignoring(409, 404))]);
    }
    this.#pid = undefined;
  }

  /** The end of what it wrote. */
  async log(): Promise<string> {
    const frames = await this.docker.logs({ stdout: true, stderr: true, follow: false, tail: 100 });
    return textOf(frames);
  }

  exec(command: readonly string[]) {
    return this.#engine.exec(this.docker, command);
  }

  async remove(): Promise<void> {
    this.#pid = undefined;
    await this.docker.remove({ force: true, v: true }).catch(ignoring(404));
    this.#engine.forget(this.id);
    await this.#shared?.leave();
  }
}

async function requestOf(engine: Engine, plan: ContainerPlan, name: string, network: string) {
  const { port, extra } = plan;
  const inside = `${port?.inside}/tcp`;
  const published = { HostIp: engine.publishedOn, HostPort: `${port?.published}` };
  return {
    ...extra,
    name,
    Image: plan.image,
    Cmd: plan.command,
    Env: Object.entries(plan.env ?? {}).map(([key, value]) => `${key}=${value}`),
    Labels: await engine.labels(),
    ...(port && { ExposedPorts: { [inside]: {} } }),
    HostConfig: {
      ...extra?.HostConfig,
      NetworkMode: network,
      ...(port && { PortBindings: { [inside]: [published] } }),
    },
  };
}

async function refusable<T>({ kind, image }: ContainerPlan, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    const why = `a container of ${image} for ${kind} was refused: ${(cause as Error).message}`;
    throw new TestkitError('start-failed', why, { cause });
  }
}

/** Without a terminal, each piece of a log has a head: its stream in one byte, three empty, its length in four. */
function textOf(frames: Buffer): string {
  let text = '';
  for (let at = 0; at + 8 <= frames.length; ) {
    const end = at + 8 + frames.readUInt32BE(at + 4);
    text += frames.subarray(at + 8, end).toString();
    at = end;
  }
  return text;
}
