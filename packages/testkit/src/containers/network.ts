import { TestkitError } from '../errors.ts';
import { type ContainerHandle, type DockerNetwork, ignoring } from './docker-api.ts';
import { type Engine, nameFor } from './engine.ts';
import { requireEngine } from './route.ts';

/** What can be connected: a server or a worker in a container. */
export interface Connectable {
  readonly container?: ContainerHandle | undefined;
}

/** A network among containers: those on it reach each other by their `container.name`. */
export interface ContainerNetwork extends AsyncDisposable {
  readonly name: string;
  /**
   * Puts a container on this network too.
   * @throws {@link TestkitError} `invalid-option` for what runs in no container.
   */
  connect(target: Connectable): Promise<void>;
  /**
   * Takes a container off: what it sends over open connections gets lost from then on, without an end of them that
   * either side could see, and new ones fail. Where it was the first of its networks, its published port is gone until
   * it is connected again.
   * @throws {@link TestkitError} `invalid-option` for what runs in no container.
   */
  disconnect(target: Connectable): Promise<void>;
  /** Removes it, which cuts whoever is on it off. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Makes a network for servers and workers in containers, to be given as `container.networks`. It ends with
 * `stop()`, and by itself when this process ends, in whatever way.
 * @throws {@link TestkitError} `no-server` where no engine answers.
 */
export async function startContainerNetwork(): Promise<ContainerNetwork> {
  return makeNetwork(await requireEngine());
}

async function makeNetwork(engine: Engine): Promise<ContainerNetwork> {
  const name = nameFor('network');
  const docker = await engine.api.createNetwork({
    Name: name,
    CheckDuplicate: true,
    Labels: await engine.labels(),
    ...(engine.publishedOn && {
      Options: { 'com.docker.network.bridge.host_binding_ipv4': engine.publishedOn },
    }),
  });
  engine.guard('networks', docker.id);
  return new Network(engine, docker, name);
}

class Network implements ContainerNetwork {
  readonly name: string;
  readonly #engine: Engine;
  readonly #docker: DockerNetwork;
  #stopped: Promise<void> | undefined;

  constructor(engine: Engine, docker: DockerNetwork, name: string) {
    this.name = name;
    this.#engine = engine;
    this.#docker = docker;
  }

  async connect(target: Connectable): Promise<void> {
    await this.#docker.connect({ Container: containerOf(target).id });
  }

  async disconnect(target: Connectable): Promise<void> {
    await this.#docker.disconnect({ Container: containerOf(target).id });
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#remove();
    return this.#stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #remove(): Promise<void> {
    const { Containers = {} } = await this.#docker.inspect();
    for (const id of Object.keys(Containers)) {
      // It may end meanwhile.
      await this.#docker.disconnect({ Container: id, Force: true }).catch(ignoring(404));
    }
    await this.#docker.remove().catch(ignoring(404));
    this.#engine.forget(this.#docker.id);
  }
}

function containerOf({ container }: Connectable): ContainerHandle {
  if (container !== undefined) return container;
  throw new TestkitError('invalid-option', 'only what runs in a container is on a network of containers');
}

/** The network of containers that were given none: made for the first of them, removed after the last. */
export class SharedNetwork {
  static #current: { readonly network: Promise<ContainerNetwork>; users: number } | undefined;
  readonly network: ContainerNetwork;
  readonly #of: { users: number };
  #left = false;

  private constructor(network: ContainerNetwork, of: { users: number }) {
    this.network = network;
    this.#of = of;
  }

  static async join(engine: Engine): Promise<SharedNetwork> {
    SharedNetwork.#current ??= { network: makeNetwork(engine), users: 0 };
    const current = SharedNetwork.#current;
    current.users += 1;
    try {
      return new SharedNetwork(await current.network, current);
    } catch (error) {
      if (SharedNetwork.#current === current) SharedNetwork.#current = undefined;
      throw error;
    }
  }

  async leave(): Promise<void> {
    if (this.#left) return;
    this.#left = true;
    this.#of.users -= 1;
    if (this.#of.users > 0) return;
    if (SharedNetwork.#current === this.#of) SharedNetwork.#current = undefined;
    await this.network.stop();
  }
}
