// What the testkit needs of an engine's API, as `dockerode` has it, which comes with testcontainers.
import type { Duplex } from 'node:stream';

export interface DockerContainer {
  readonly id: string;
  start(): Promise<unknown>;
  pause(): Promise<unknown>;
  unpause(): Promise<unknown>;
  kill(options?: { signal: string }): Promise<unknown>;
  wait(): Promise<{ StatusCode: number }>;
  remove(options: { force: boolean; v: boolean }): Promise<unknown>;
  inspect(): Promise<DockerInspection>;
  logs(options: { stdout: true; stderr: true; follow: false; tail: number }): Promise<Buffer>;
  attach(options: { stream: true; stdout: true; stderr: true }): Promise<Duplex>;
}

export interface DockerInspection {
  readonly State: {
    readonly Running: boolean;
    readonly Paused: boolean;
    readonly Pid: number;
    readonly ExitCode: number;
  };
}

export interface DockerNetwork {
  readonly id: string;
  connect(options: { Container: string; EndpointConfig?: { Aliases: string[] } }): Promise<unknown>;
  disconnect(options: { Container: string; Force?: boolean }): Promise<unknown>;
  inspect(): Promise<{ readonly Containers?: Readonly<Record<string, unknown>> }>;
  remove(): Promise<unknown>;
}

export interface DockerApi {
  readonly modem: {
    readonly socketPath?: string;
    readonly host?: string;
    readonly port?: number | string;
    readonly protocol?: string;
    demuxStream(stream: Duplex, stdout: NodeJS.WritableStream, stderr: NodeJS.WritableStream): void;
  };
  createContainer(options: object): Promise<DockerContainer>;
  createNetwork(options: object): Promise<DockerNetwork>;
}

/** The parts of the module `testcontainers` that find an engine, pull images and see to it that nothing stays. */
export interface Testcontainers {
  readonly LABEL_TESTCONTAINERS_SESSION_ID: string;
  readonly ImageName: { fromString(name: string): unknown };
  getContainerRuntimeClient(): Promise<RuntimeClient>;
  getReaper(client: RuntimeClient): Promise<{ readonly sessionId: string }>;
}

export interface RuntimeClient {
  readonly info: { readonly containerRuntime: { readonly host: string } };
  readonly container: {
    readonly dockerode: DockerApi;
    exec(
      container: DockerContainer,
      command: string[],
    ): Promise<{ readonly stdout: string; readonly stderr: string; readonly exitCode: number }>;
  };
  readonly image: { pull(image: unknown, options: { force: boolean }): Promise<void> };
}

/** A container as networks and messages see it. */
export interface ContainerHandle {
  readonly id: string;
  /** By it the container is reached from every network that it is connected to. */
  readonly name: string;
}

/** For verbs that want a state which may be there already: takes API errors of these statuses for success. */
export function ignoring(...statuses: readonly number[]): (error: unknown) => void {
  return (error) => {
    const status = (error as { statusCode?: number } | undefined)?.statusCode;
    if (status === undefined || !statuses.includes(status)) throw error;
  };
}
