import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { etcdInContainer } from './containers/etcd.ts';
import { type ContainerOptions, containerRoute } from './containers/route.ts';
import { TestkitError } from './errors.ts';
import { type CtlOptions, ctlOf, type EtcdCtl } from './etcd-ctl.ts';
import { clientUrl, type EtcdTls, isPortTaken, launchEtcd } from './etcd-launcher.ts';
import { type EtcdStore, type RestoreSnapshotOptions, restoreData, storeOf } from './etcd-store.ts';
import {
  addressFromEnvironment,
  anyEtcdctl,
  chooseVersion,
  compareVersions,
  type EtcdPrograms,
  findEtcds,
} from './find-server.ts';
import { freePorts } from './free-ports.ts';
import { getJson } from './get-json.ts';
import { foreignServer, OwnedServer, TemporaryFolder, type TestServer } from './owned-server.ts';

export type { CtlOptions, EtcdTls };

export interface EtcdOptions {
  /**
   * `oldest` or `newest` in reach, or an exact version such as `3.5.30`. Default: whatever the first
   * successful route has.
   */
  readonly version?: 'newest' | 'oldest' | (string & {}) | undefined;
  /** Insist on a server of our own, which can be paused and killed, even if ETCD_ENDPOINTS is set. */
  readonly own?: boolean | undefined;
  /** Kept after the end. Default: a temporary folder that is removed. */
  readonly dataDir?: string | undefined;
  /** Further arguments of `etcd`; they win over ours. Imply `own`. */
  readonly extraArgs?: readonly string[] | undefined;
  /** Further variables for `etcd`. Imply `own`. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Serve with TLS as well, on a port of its own: see `tlsEndpoint`. Implies `own`. */
  readonly tls?: EtcdTls | undefined;
  /** How it runs in a container. Given, it runs in one or not at all. Implies `own`. */
  readonly container?: ContainerOptions | undefined;
}

/** A running etcd of a single member. */
export interface EtcdServer extends TestServer, EtcdCtl, EtcdStore {
  /** `http://127.0.0.1:<port>`, the same over restarts. */
  readonly endpoint: string;
  /** `https://127.0.0.1:<port>`, where it was started with `tls`. */
  readonly tlsEndpoint: string | undefined;
  /**
   * SIGKILL, then a new start at the same address with the data of a snapshot: what was written since is gone.
   * @throws {@link TestkitError} `not-ours`; `no-server` where a program for it is missing; `command-failed`
   */
  restoreSnapshot(file: string, options?: RestoreSnapshotOptions): Promise<void>;
}

const BIND_TRIES = 5;

/**
 * Starts an etcd on loopback, with temporary data on free ports, and resolves when it answers. Found in
 * this order, which `LOCKKEEPER_SERVERS=env|container|path|unpacked` narrows to one: an address in ETCD_ENDPOINTS
 * (nothing is started then, and it cannot be paused or killed), a container where testcontainers is installed and an
 * engine answers, `etcd` on PATH, the set-up's cache. In containers there is no `dataDir` and no `tls`.
 *
 * The server ends with `stop()`, and by itself when this process ends, in whatever way.
 *
 * Its timing is etcd's default, so the shortest TTL it grants is 2 s.
 * @throws {@link TestkitError} `no-server`, `start-failed`
 */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdServer> {
  const { own, dataDir, extraArgs, env, tls, container } = options;
  const owned = own || dataDir || extraArgs || env || tls || container;
  const address = owned ? undefined : addressFromEnvironment('ETCD_ENDPOINTS');
  if (address !== undefined) {
    const foreign = await foreignEtcd(address);
    if (matches(foreign.version, options.version)) return foreign;
  }
  const engine = await containerRoute(container, { dataDir, tls });
  if (engine !== undefined) return etcdInContainer(engine, options);
  return startOwn(chooseVersion('etcd', findEtcds(), options.version), options);
}

/**
 * The versions a suite should run against: the oldest and the newest in reach, just one where they are the
 * same, none where there is no etcd; images are not looked at. With ETCD_ENDPOINTS: the version found there.
 */
export async function availableEtcdVersions(): Promise<readonly string[]> {
  const address = addressFromEnvironment('ETCD_ENDPOINTS');
  if (address !== undefined) return [(await foreignEtcd(address)).version];
  const versions = findEtcds()
    .map(({ version }) => version)
    .sort(compareVersions);
  return [...new Set([versions[0], versions.at(-1)])].filter((version) => version !== undefined);
}

async function startOwn(programs: EtcdPrograms, options: EtcdOptions): Promise<EtcdServer> {
  const folder = new TemporaryFolder('lockkeeper-etcd-');
  try {
    for (let tries = 1; ; tries++) {
      const [clientPort, peerPort, tlsPort] = (await freePorts(3)) as [number, number, number];
      const plan = ownPlan(programs, options, folder, { clientPort, peerPort, tlsPort });
      try {
        const owned = new OwnedServer(plan, folder, await plan.launch());
        const tlsEndpoint = options.tls && `https://127.0.0.1:${tlsPort}`;
        const etcd = ownedEtcd(
          programs,
          { endpoint: clientUrl(clientPort), tlsEndpoint },
          folder.path,
          owned,
        );
        const restoreSnapshot: EtcdServer['restoreSnapshot'] = (file, restoring = {}) =>
          owned.restartOn(() => restoreData(programs, resolve(file), plan.place, restoring));
        return extended(etcd, { restoreSnapshot });
      } catch (error) {
        if (!isPortTaken(error) || tries === BIND_TRIES) throw error;
      }
    }
  } catch (error) {
    await folder.remove();
    throw error;
  }
}

interface Ports {
  readonly clientPort: number;
  readonly peerPort: number;
  readonly tlsPort: number;
}

function ownPlan(programs: EtcdPrograms, options: EtcdOptions, folder: TemporaryFolder, ports: Ports) {
  const name = 'lockkeeper';
  const dataDir = resolve(options.dataDir ?? join(folder.path, 'data'));
  const peerUrl = clientUrl(ports.peerPort);
  const place = {
    name,
    dataDir,
    advertisePeerUrl: peerUrl,
    initialCluster: `${name}=${peerUrl}`,
    clusterToken: folder.path,
  };
  const launch = () =>
    launchEtcd({
      programs,
      ...place,
      folder: folder.path,
      clientPort: ports.clientPort,
      tls: options.tls && { ...options.tls, port: ports.tlsPort },
      listenPeerUrl: peerUrl,
      state: 'new',
      extraArgs: options.extraArgs,
      env: options.env,
    });
  return { name: `etcd ${programs.version}`, dataDir, place, endSignal: 'SIGKILL' as const, launch };
}

/** The verbs of an etcd that this process started. */
export function ownedEtcd(
  programs: EtcdPrograms,
  { endpoint, tlsEndpoint }: Pick<EtcdServer, 'endpoint' | 'tlsEndpoint'>,
  folder: string,
  owned: OwnedServer,
): Omit<EtcdServer, 'restoreSnapshot'> {
  const etcdctl = etcdctlFor(programs);
  const stop = () => owned.stop();
  return {
    endpoint,
    tlsEndpoint,
    version: programs.version,
    route: programs.route,
    get pid() {
      return owned.pid;
    },
    pause: () => owned.pause(),
    resume: () => owned.resume(),
    kill: () => owned.kill(),
    restart: (options) => owned.restart(options),
    stop,
    [Symbol.asyncDispose]: stop,
    ...ctlOf(etcdctl, endpoint),
    ...storeOf([endpoint], folder, etcdctl),
  };
}

/** The same object with more members; its getters stay getters. */
export function extended<T extends object, U extends object>(base: T, more: U): T & U {
  return Object.defineProperties(base, Object.getOwnPropertyDescriptors(more)) as T & U;
}

/** Its own `etcdctl`, or that of any other version. */
export function etcdctlFor(programs: EtcdPrograms | undefined): string | undefined {
  return programs?.etcdctl ?? anyEtcdctl();
}

async function foreignEtcd(address: string): Promise<EtcdServer> {
  const endpoint = address.includes('://') ? address : `http://${address}`;
  let version: string;
  try {
    version = (await getJson<{ etcdserver: string }>(`${endpoint}/version`)).etcdserver;
  } catch (cause) {
    const why = `ETCD_ENDPOINTS is "${address}", but no etcd answers there`;
    throw new TestkitError('no-server', why, { cause });
  }
  const etcdctl = etcdctlFor(undefined);
  const restoreSnapshot = () => {
    const why = `etcd at ${endpoint} was found by its address: no snapshot can be restored here`;
    return Promise.reject(new TestkitError('not-ours', why));
  };
  const ours = { endpoint, tlsEndpoint: undefined, restoreSnapshot };
  return {
    ...foreignServer('etcd', endpoint, version),
    ...ours,
    ...ctlOf(etcdctl, endpoint),
    ...storeOf([endpoint], tmpdir(), etcdctl),
  };
}

function matches(found: string, wanted: string | undefined): boolean {
  return wanted === undefined || wanted === 'newest' || wanted === 'oldest' || wanted === found;
}
