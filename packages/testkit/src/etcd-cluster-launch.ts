import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { TestkitError } from './errors.ts';
import type { EtcdCluster, EtcdClusterOptions, EtcdMember } from './etcd-cluster.ts';
import { ctlOf, type EtcdCtl } from './etcd-ctl.ts';
import { clientUrl, launchEtcd } from './etcd-launcher.ts';
import { findLeader, replaceMember } from './etcd-membership.ts';
import { type PartitionGroup, partitionMembers } from './etcd-partition.ts';
import { etcdctlFor, extended, ownedEtcd } from './etcd-server.ts';
import { type RestoreSnapshotOptions, restoreData, storeOf } from './etcd-store.ts';
import { type Fault, faultOf } from './fault.ts';
import type { EtcdPrograms } from './find-server.ts';
import { OwnedServer, type RestartOptions, TemporaryFolder } from './owned-server.ts';
import { PeerLinks, type PeerPorts } from './peer-links.ts';
import type { ServerProcess } from './server-process.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

interface MemberPlan {
  readonly name: string;
  readonly clientPort: number;
  readonly peer: PeerPorts;
  readonly folder: TemporaryFolder;
  readonly extraArgs: readonly string[];
}

/** A cluster of processes of this machine: one set of ports and folders, and the members that run on it. */
export class ClusterLaunch {
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
