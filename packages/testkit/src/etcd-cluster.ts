import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { etcdClusterInContainers } from './containers/etcd-cluster.ts';
import { containerRoute } from './containers/route.ts';
import { TestkitError } from './errors.ts';
import { ctlOf, type EtcdCtl } from './etcd-ctl.ts';
import { clientUrl, isPortTaken, launchEtcd } from './etcd-launcher.ts';
import { findLeader, replaceMember } from './etcd-membership.ts';
import { type PartitionGroup, partitionMembers } from './etcd-partition.ts';
import { type EtcdOptions, type EtcdServer, etcdctlFor, extended, ownedEtcd } from './etcd-server.ts';
import { type EtcdStore, type RestoreSnapshotOptions, restoreData, storeOf } from './etcd-store.ts';
import { type Fault, faultOf } from './fault.ts';
import { chooseVersion, type EtcdPrograms, findEtcds, type ServerRoute } from './find-server.ts';
import { freePorts } from './free-ports.ts';
import { OwnedServer, type RestartOptions, TemporaryFolder } from './owned-server.ts';
import { PeerLinks, type PeerPorts } from './peer-links.ts';
import type { ServerProcess } from './server-process.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

export interface EtcdClusterOptions extends Pick<EtcdOptions, 'version' | 'env' | 'container'> {
  /** Default 3. */
  readonly members?: number | undefined;
  /** Further arguments of every member; they win over ours. */
  readonly extraArgs?: readonly string[] | undefined;
  /** Further arguments of single members, in their order; they win over `extraArgs`. */
  readonly memberExtraArgs?: readonly (readonly string[])[] | undefined;
  /**
   * Whether the members' connections to each other pass through this process, as a partition between them needs
   * it. They then stand still while this process does. Default `false`.
   */
  readonly isolatable?: boolean | undefined;
  /**
   * Whether clients' connections pass through this process: a member's `endpoint` is then the address of its
   * `proxy`, as a partition from clients needs it. Default `false`.
   */
  readonly proxied?: boolean | undefined;
}

/** One member of a cluster. Restarted on its own with `wipe`, it is replaced: removed and joined anew, empty. */
export interface EtcdMember extends Omit<EtcdServer, 'restoreSnapshot'> {
  /** `m1`, `m2`, … */
  readonly name: string;
  /** The way of its clients, for faults of all sorts; `undefined` unless started with `proxied`. */
  readonly proxy: TcpProxy | undefined;
}

/** A running etcd of several members on loopback. */
export interface EtcdCluster extends AsyncDisposable, EtcdCtl, EtcdStore {
  readonly version: string;
  readonly route: ServerRoute;
  readonly members: readonly EtcdMember[];
  /** The members' addresses, in their order; the same over restarts. */
  readonly endpoints: readonly string[];
  /**
   * The member that leads now, once exactly one says so. Members that are paused or down are not asked.
   * @throws {@link TestkitError} `timeout` after 20 s without a leader.
   */
  leader(): Promise<EtcdMember>;
  /** All members but the leader, in their order. */
  followers(): Promise<readonly EtcdMember[]>;
  /**
   * Cuts groups off from each other, in both directions, until restored; whoever is in none reaches everybody.
   * `'clients'` are all who use the members' endpoints. No connection is closed for it: what was sent in vain
   * arrives when the partition ends, unless its sender has given the connection up.
   *
   * ```ts
   * cluster.partition([leader], followers); // clients still reach all of them
   * cluster.partition([leader, 'clients'], followers); // and here only the leader
   * cluster.partition([leader], ['clients']); // a member that only clients do not reach
   * ```
   * @throws {@link TestkitError} `invalid-option` unless started with `isolatable` where members are cut off from
   * each other, and with `proxied` where they are cut off from clients.
   */
  partition(...groups: readonly PartitionGroup[]): Fault;
  /**
   * Cuts a member off from all others, which its clients do not notice at first: it has no leader any more. Of a
   * single member nothing is cut off.
   * @throws {@link TestkitError} `invalid-option` unless started with `isolatable`.
   */
  isolate(member: EtcdMember): Fault;
  /** Kills all members, then starts them again together; with `wipe` as an empty cluster at the same addresses. */
  restart(options?: RestartOptions): Promise<void>;
  /**
   * Kills all members, then starts them again together, each with the data of the snapshot: what was written since
   * is gone.
   * @throws {@link TestkitError} `no-server` where a program for it is missing; `command-failed`
   */
  restoreSnapshot(file: string, options?: RestoreSnapshotOptions): Promise<void>;
  /** Ends all and removes their data. Idempotent. */
  stop(): Promise<void>;
}

const BIND_TRIES = 5;

/**
 * Starts an etcd cluster on loopback, with temporary data on free ports, and resolves when every member
 * serves. It is found as `startEtcd` finds one; an address in the environment is not used. Members in containers
 * reach each other by name, so `isolatable` rules containers out.
 *
 * It ends with `stop()`, and by itself when this process ends, in whatever way.
 * @throws {@link TestkitError} `no-server`, `start-failed`
 */
export async function startEtcdCluster(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
  const count = options.members ?? 3;
  if (!Number.isInteger(count) || count < 1 || count > 9) {
    throw new TestkitError('invalid-option', `members is ${count}; expected 1 to 9`);
  }
  const { container, isolatable } = options;
  const engine = await containerRoute(container, { isolatable });
  if (engine !== undefined) return etcdClusterInContainers(engine, options, count);
  const programs = chooseVersion('etcd', findEtcds(), options.version);
  for (let tries = 1; ; tries++) {
    const launch = new ClusterLaunch(programs, options, await freePorts(3 * count));
    try {
      return await launch.start();
    } catch (error) {
      await launch.stop();
      if (!isPortTaken(error) || tries === BIND_TRIES) throw error;
    }
  }
}

interface MemberPlan {
  readonly name: string;
  readonly clientPort: number;
  readonly peer: PeerPorts;
  readonly folder: TemporaryFolder;
  readonly extraArgs: readonly string[];
}

/** One set of ports and folders, and the members that run on it. */
class ClusterLaunch {
  readonly #programs: EtcdPrograms;
  readonly #options: EtcdClusterOptions;
  readonly #plans: readonly MemberPlan[];
  readonly #ctl: EtcdCtl;
  readonly #servers: OwnedServer[] = [];
  #links: PeerLinks | undefined;
  #proxies: readonly TcpProxy[] = [];
  /** Whether the cluster exists: a member without data then joins it rather than forming a new one. */
  #formed = false;

  constructor(programs: EtcdPrograms, options: EtcdClusterOptions, ports: readonly number[]) {
    this.#programs = programs;
    this.#options = options;
    this.#plans = Array.from({ length: ports.length / 3 }, (_, index) => {
      const [clientPort = 0, listening = 0, spare = 0] = ports.slice(3 * index);
      return {
        name: `m${index + 1}`,
        clientPort,
        peer: { listening, advertised: options.isolatable ? spare : listening },
        folder: new TemporaryFolder('lockkeeper-etcd-'),
        extraArgs: [...(options.extraArgs ?? []), ...(options.memberExtraArgs?.[index] ?? [])],
      };
    });
    const endpoints = this.#plans.map(({ clientPort }) => clientUrl(clientPort));
    this.#ctl = ctlOf(etcdctlFor(programs), endpoints.join(','));
  }

  async start(): Promise<EtcdCluster> {
    if (this.#options.proxied) {
      this.#proxies = await Promise.all(
        this.#plans.map(({ clientPort }) => startTcpProxy(clientUrl(clientPort))),
      );
    }
    if (this.#options.isolatable) this.#links = await PeerLinks.open(this.#plans.map(({ peer }) => peer));
    const started = await Promise.allSettled(this.#plans.map((plan) => this.#launch(plan)));
    for (const [index, plan] of this.#plans.entries()) {
      const result = started[index];
      if (result?.status === 'fulfilled') this.#servers.push(this.#own(plan, result.value));
    }
    const failed = started.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    this.#formed = true;
    return this.#cluster();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop()));
    await this.#links?.[Symbol.asyncDispose]();
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    // Those of members that never started.
    await Promise.all(this.#plans.map(({ folder }) => folder.remove()));
  }

  #cluster(): EtcdCluster {
    const members = this.#plans.map((plan, index) => this.#member(plan, index));
    const partitioned = members.map((member, index) => ({
      member,
      peer: (this.#plans[index] as MemberPlan).peer,
    }));
    const partition = (...groups: readonly PartitionGroup[]) =>
      partitionMembers(groups, partitioned, this.#links);
    const leader = async () => members[await this.#findLeader()] as EtcdMember;
    let stopped: Promise<void> | undefined;
    const stop = () => {
      stopped ??= this.stop();
      return stopped;
    };
    return {
      version: this.#programs.version,
      route: this.#programs.route,
      members,
      endpoints: members.map(({ endpoint }) => endpoint),
      leader,
      followers: async () => {
        const leading = await leader();
        return members.filter((member) => member !== leading);
      },
      partition,
      isolate: (member) => this.#isolate(member, members, partition),
      restart: (options) => this.#restart(options),
      restoreSnapshot: (file, options) => this.#restore(resolve(file), options),
      stop,
      [Symbol.asyncDispose]: stop,
      ...this.#ctl,
      ...storeOf(
        this.#plans.map(({ clientPort }) => clientUrl(clientPort)),
        this.#plans[0]?.folder.path ?? '',
        this.#ctl.ctlPath,
      ),
    };
  }

  #member({ name, clientPort, folder }: MemberPlan, index: number): EtcdMember {
    const proxy = this.#proxies[index];
    const addresses = { endpoint: proxy?.url ?? clientUrl(clientPort), tlsEndpoint: undefined };
    const owned = this.#servers[index] as OwnedServer;
    return extended(ownedEtcd(this.#programs, addresses, folder.path, owned), { name, proxy });
  }

  #isolate(member: EtcdMember, members: readonly EtcdMember[], partition: EtcdCluster['partition']): Fault {
    if (!this.#options.isolatable || !members.includes(member)) {
      throw new TestkitError(
        'invalid-option',
        'isolate() takes a member of a cluster started with isolatable',
      );
    }
    const others = members.filter((one) => one !== member);
    return others.length === 0 ? faultOf(() => {}) : partition([member], others);
  }

  /** Members that are down are not asked, and none through its proxy. @returns its place. */
  #findLeader(): Promise<number> {
    return findLeader(() =>
      this.#plans.map(({ clientPort }, index) =>
        this.#servers[index]?.pid === undefined ? undefined : clientUrl(clientPort),
      ),
    );
  }

  async #restart(options: RestartOptions = {}): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    this.#formed = options.wipe !== true;
    await Promise.all(this.#servers.map((server) => server.restart(options)));
    this.#formed = true;
  }

  async #restore(file: string, options: RestoreSnapshotOptions = {}): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    const restored = this.#plans.map((plan, index) =>
      this.#servers[index]?.restartOn(() => restoreData(this.#programs, file, this.#place(plan), options)),
    );
    await Promise.all(restored);
  }

  #own(plan: MemberPlan, run: ServerProcess): OwnedServer {
    const { name, folder } = plan;
    const owned = {
      name: `etcd ${this.#programs.version} ${name}`,
      dataDir: dataDirOf(plan),
      endSignal: 'SIGKILL' as const,
      launch: () => this.#launch(plan),
    };
    return new OwnedServer(owned, folder, run);
  }

  async #launch(plan: MemberPlan): Promise<ServerProcess> {
    const dataDir = dataDirOf(plan);
    const joins = this.#formed && !existsSync(join(dataDir, 'member'));
    if (joins) await this.#replace(plan);
    return launchEtcd({
      programs: this.#programs,
      ...this.#place(plan),
      folder: plan.folder.path,
      clientPort: plan.clientPort,
      listenPeerUrl: clientUrl(plan.peer.listening),
      state: joins ? 'existing' : 'new',
      extraArgs: plan.extraArgs,
      env: this.#options.env,
    });
  }

  #place(plan: MemberPlan) {
    return {
      name: plan.name,
      dataDir: dataDirOf(plan),
      advertisePeerUrl: clientUrl(plan.peer.advertised),
      initialCluster: this.#plans.map(({ name, peer }) => `${name}=${clientUrl(peer.advertised)}`).join(','),
      clusterToken: this.#plans[0]?.folder.path ?? '',
    };
  }

  #replace({ name, peer }: MemberPlan): Promise<void> {
    const others = this.#plans.filter((plan) => plan.name !== name);
    const endpoints = others.map(({ clientPort }) => clientUrl(clientPort)).join(',');
    return replaceMember(ctlOf(etcdctlFor(this.#programs), endpoints), name, clientUrl(peer.advertised));
  }
}

function dataDirOf({ folder }: MemberPlan): string {
  return join(folder.path, 'data');
}
