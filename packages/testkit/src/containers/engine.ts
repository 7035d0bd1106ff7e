import { randomUUID } from 'node:crypto';
import { TestkitError } from '../errors.ts';
import { forgetInEngine, guardInEngine } from '../guardian.ts';
import type { DockerApi, DockerContainer, RuntimeClient, Testcontainers } from './docker-api.ts';

/** A container engine whose daemon answers. */
export class Engine {
  readonly api: DockerApi;
  /** Where published ports are reached. */
  readonly host: string;
  readonly #testcontainers: Testcontainers;
  readonly #client: RuntimeClient;
  #labels: Promise<Readonly<Record<string, string>>> | undefined;

  constructor(testcontainers: Testcontainers, client: RuntimeClient) {
    const { host } = client.info.containerRuntime;
    this.#testcontainers = testcontainers;
    this.#client = client;
    this.api = client.container.dockerode;
    this.host = host === 'localhost' ? '127.0.0.1' : host;
  }

  /** Where ports are published: on loopback only, unless the engine is on another machine. */
  get publishedOn(): string {
    return this.host === '127.0.0.1' ? '127.0.0.1' : '';
  }

  /**
   * Of everything that this process makes. By them the reaper of testcontainers, unless it is switched off,
   * removes what is left when this process has ended; our guardian does so by the ids.
   */
  labels(): Promise<Readonly<Record<string, string>>> {
    this.#labels ??= this.#testcontainers.getReaper(this.#client).then(({ sessionId }) => ({
      'org.testcontainers': 'true',
      'org.testcontainers.lang': 'node',
      [this.#testcontainers.LABEL_TESTCONTAINERS_SESSION_ID]: sessionId,
      'lockkeeper.run': RUN,
    }));
    return this.#labels;
  }

  /** Pulls the image where the engine does not have it. @throws TestkitError `start-failed` */
  async pull(image: string): Promise<void> {
    try {
      await this.#client.image.pull(this.#testcontainers.ImageName.fromString(image), { force: false });
    } catch (cause) {
      const why = `the image ${image} cannot be had: ${(cause as Error).message}`;
      throw new TestkitError('start-failed', why, { cause });
    }
  }

  exec(container: DockerContainer, command: readonly string[]) {
    return this.#client.container.exec(container, [...command]);
  }

  /** Call it as soon as the thing exists; `kind` is that of the API's path. */
  guard(kind: 'containers' | 'networks', id: string): void {
    const { modem } = this.api;
    const tcp =
      modem.protocol === 'http' && modem.host ? { host: modem.host, port: Number(modem.port) } : undefined;
    const at = modem.socketPath ? { socketPath: modem.socketPath } : tcp;
    // Over TLS or SSH the reaper alone does it.
    if (at !== undefined) guardInEngine({ ...at, kind, id });
  }

  forget(id: string): void {
    forgetInEngine(id);
  }
}

/** Names what belongs together, and is nobody else's. */
const RUN = randomUUID();

/** A name for one thing of this run. */
export function nameFor(kind: string): string {
  return `lockkeeper-${kind}-${randomUUID().slice(0, 13)}`;
}

let found: Promise<Engine | string> | undefined;

/** The engine, or why there is none. Looked for once a process: that takes half a second. */
export function findEngine(): Promise<Engine | string> {
  found ??= look();
  return found;
}

async function look(): Promise<Engine | string> {
  // Optional, and its types are not ours to check.
  const name: string = 'testcontainers';
  let testcontainers: Testcontainers;
  try {
    testcontainers = (await import(name)) as Testcontainers;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    return 'testcontainers is not installed (npm install --save-dev testcontainers)';
  }
  try {
    return new Engine(testcontainers, await testcontainers.getContainerRuntimeClient());
  } catch (error) {
    return `no container engine answers: ${(error as Error).message}`;
  }
}
