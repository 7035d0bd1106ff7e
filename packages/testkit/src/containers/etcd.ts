import { TestkitError } from '../errors.ts';
import { type CtlOptions, ctlOf, type EtcdCtl } from '../etcd-ctl.ts';
import type { EtcdOptions, EtcdServer } from '../etcd-server.ts';
import { storeOf } from '../etcd-store.ts';
import { anyEtcdctl } from '../find-server.ts';
import { getJson } from '../get-json.ts';
import { TemporaryFolder } from '../owned-server.ts';
import type { Container, ContainerPlan } from './container.ts';
import { ContainerServer, extended } from './container-server.ts';
import type { Engine } from './engine.ts';
import { imageOf } from './route.ts';

export const CLIENT_PORT = 2379;
export const PEER_PORT = 2380;

export async function etcdInContainer(engine: Engine, options: EtcdOptions): Promise<EtcdServer> {
  const server = await ContainerServer.start(engine, {
    kind: 'etcd',
    container: (published) =>
      etcdPlan(engine, options, published, [
        ...['--name', 'lockkeeper', '--initial-cluster', `lockkeeper=http://127.0.0.1:${PEER_PORT}`],
        ...['--listen-peer-urls', `http://127.0.0.1:${PEER_PORT}`],
        ...['--initial-advertise-peer-urls', `http://127.0.0.1:${PEER_PORT}`],
        ...(options.extraArgs ?? []),
      ]),
    ready: (port) => etcdReady(engine, port),
  });
  const endpoint = endpointOf(engine, server.port);
  const folder = new TemporaryFolder('lockkeeper-etcd-');
  return extended(
    server.verbs(() => folder.remove()),
    {
      endpoint,
      tlsEndpoint: undefined,
      ...ctlInContainer(() => server.container, endpoint),
      ...storeOf([endpoint], folder.path, anyEtcdctl()),
      restoreSnapshot: noRestore,
    },
  );
}

/** The data of a container are out of reach. */
export async function noRestore(): Promise<never> {
  throw new TestkitError('no-server', 'restoreSnapshot: not in a container; have a server of another route');
}

export function endpointOf(engine: Engine, port: number): string {
  return `http://${engine.host}:${port}`;
}

export function etcdPlan(
  engine: Engine,
  options: Pick<EtcdOptions, 'version' | 'env' | 'container'>,
  published: number,
  args: readonly string[],
): ContainerPlan {
  return {
    kind: 'etcd',
    image: imageOf('etcd', options.container?.image, options.version),
    command: [
      'etcd',
      ...['--data-dir', '/etcd-data', '--logger', 'zap', '--log-level', 'warn'],
      ...['--listen-client-urls', `http://0.0.0.0:${CLIENT_PORT}`],
      ...['--advertise-client-urls', endpointOf(engine, published)],
      ...args,
    ],
    env: options.env,
    port: { inside: CLIENT_PORT, published },
    networks: options.container?.networks,
  };
}

/** Resolves with its version when it serves reads. */
export async function etcdReady(engine: Engine, port: number): Promise<string> {
  const endpoint = endpointOf(engine, port);
  const { health } = await getJson<{ health: string }>(`${endpoint}/health`);
  if (health !== 'true') throw new Error(`its health is ${health}`);
  return (await getJson<{ etcdserver: string }>(`${endpoint}/version`)).etcdserver;
}

/**
 * An `etcdctl` of this machine, if it has one; else the one of the image, which cannot be given an input and cannot
 * be left running.
 */
export function ctlInContainer(container: () => Container, endpoints: string): EtcdCtl {
  const own = anyEtcdctl();
  if (own !== undefined) return ctlOf(own, endpoints);
  return {
    ...ctlOf(undefined, endpoints),
    ctl: async (args, { input }: CtlOptions = {}) => {
      if (input !== undefined) {
        throw new TestkitError(
          'no-server',
          'an input for etcdctl needs one on this machine (apt install etcd-client)',
        );
      }
      const { exitCode, stdout, stderr } = await container().exec(['etcdctl', ...args]);
      if (exitCode === 0) return stdout;
      throw new TestkitError('command-failed', `etcdctl ${args.join(' ')} failed: ${stderr.trim()}`);
    },
  };
}
