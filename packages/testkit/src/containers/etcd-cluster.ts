import type { EtcdCluster, EtcdClusterOptions, EtcdMember } from '../etcd-cluster.ts';
import { findLeader, replaceMember } from '../etcd-membership.ts';
import { partitionMembers } from '../etcd-partition.ts';
import { storeOf } from '../etcd-store.ts';
import { anyEtcdctl } from '../find-server.ts';
import { freePorts } from '../free-ports.ts';
import { type RestartOptions, TemporaryFolder } from '../owned-server.ts';
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts';
import { ContainerServer, extended } from './container-server.ts';
import { type Engine, nameFor } from './engine.ts';
import { ctlInContainer, endpointOf, etcdPlan, etcdReady, noRestore, PEER_PORT } from './etcd.ts';

export async function etcdClusterInContainers(
  engine: Engine,
  options: EtcdClusterOptions,
  count: number,
): Promise<EtcdCluster> {
  const launch = new Launch(engine, options, await freePorts(count));
  try {
    return await launch.start();
  } catch (error) {
    await launch.stop();
    throw error;
  }
}

interface Plan {
  readonly name: string;
  readonly index: number;
  readonly published: number;
}

/** One cluster: its names and ports, and the members that run there. A member's container has the member's name. */
class Launch {
  readonly #engine: Engine;
  readonly #options: EtcdClusterOptions;
  readonly #token = nameFor('etcd');
  readonly #plans: readonly Plan[];
  readonly #servers: ContainerServer[] = [];
  readonly #proxies: TcpProxy[] = [];
  readonly #folder = new TemporaryFolder('lockkeeper-etcd-');
  /** Whether the cluster exists: a member without data then joins it rather than forming a new one. */
  #formed = false;

  constructor(engine: Engine, options: EtcdClusterOptions, ports: readonly number[]) {
    this.#engine = engine;
    this.#options = options;
    this.#plans = ports.map((published, index) => ({ name: `m${index + 1}`, index, published }));
  }

  async start(): Promise<EtcdCluster> {
    const started = await Promise.allSettled(this.#plans.map((plan) => this.#launch(plan)));
    for (const result of started) if (result.status === 'fulfilled') this.#servers.push(result.value);
    const failed = started.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    this.#formed = true;
    if (this.#options.proxied) {
      for (const { published } of this.#plans) {
        this.#proxies.push(await startTcpProxy(endpointOf(this.#engine, published)));
      }
    }
    return this.#cluster();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    await Promise.all(this.#servers.map((server) => server.stop()));
    await this.#folder.remove();
  }

  #launch(plan: Plan): Promise<ContainerServer> {
    return ContainerServer.start(
      this.#engine,
      {
        kind: 'etcd',
        container: async (published) => {
          const joins = this.#formed;
          if (joins) await this.#replace(plan);
          const { extraArgs = [], memberExtraArgs = [] } = this.#options;
          const args = [
            ...['--name', plan.name, '--initial-cluster-token', this.#token],
            ...['--listen-peer-urls', `http://0.0.0.0:${PEER_PORT}`],
            ...['--initial-advertise-peer-urls', this.#peerUrl(plan)],
            ...['--initial-cluster', this.#plans.map((one) => `${one.name}=${this.#peerUrl(one)}`).join(',')],
            ...['--initial-cluster-state', joins ? 'existing' : 'new'],
            ...extraArgs,
            ...(memberExtraArgs[plan.index] ?? []),
          ];
          return { ...etcdPlan(this.#engine, this.#options, published, args), name: this.#nameOf(plan) };
        },
        ready: (port) => etcdReady(this.#engine, port),
      },
      plan.published,
    );
  }

  #nameOf({ name }: Plan): string {
    return `${this.#token}-${name}`;
  }

  #peerUrl(plan: Plan): string {
    return `http://${this.#nameOf(plan)}:${PEER_PORT}`;
  }

  #cluster(): EtcdCluster {
    const members = this.#plans.map((plan) => this.#member(plan));
    const endpoints = members.map(({ endpoint }) => endpoint);
    const leader = async () => members[await this.#findLeader()] as EtcdMember;
    let stopped: Promise<void> | undefined;
    const stop = () => {
      stopped ??= this.stop();
      return stopped;
    };
    const noPeers = { advertised: 0, listening: 0 };
    const partitioned = members.map((member) => ({ member, peer: noPeers }));
    const partition: EtcdCluster['partition'] = (...groups) =>
      partitionMembers(groups, partitioned, undefined);
    return {
      version: this.#servers[0]?.version ?? '',
      route: 'container',
      members,
      endpoints,
      leader,
      followers: async () => {
        const leading = await leader();
        return members.filter((member) => member !== leading);
      },
      partition,
      isolate: (member) =>
        partition(
          [member],
          members.filter((one) => one !== member),
        ),
      restart: (options) => this.#restart(options),
      restoreSnapshot: noRestore,
      stop,
      [Symbol.asyncDispose]: stop,
      ...ctlInContainer(() => this.#server(0).container, endpoints.join(',')),
      ...this.#store(endpoints),
    };
  }

  #store(endpoints: readonly string[]) {
    return storeOf(endpoints, this.#folder.path, anyEtcdctl());
  }

  #findLeader(): Promise<number> {
    return findLeader(() =>
      this.#plans.map(({ index, published }) =>
        this.#server(index).container.pid === undefined ? undefined : endpointOf(this.#engine, published),
      ),
    );
  }

  #member({ name, index, published }: Plan): EtcdMember {
    const server = this.#server(index);
    const proxy = this.#proxies[index];
    const endpoint = proxy?.url ?? endpointOf(this.#engine, published);
    const ctl = ctlInContainer(() => server.container, endpoint);
    const store = this.#store([endpoint]);
    return extended(server.verbs(), { name, proxy, endpoint, tlsEndpoint: undefined, ...ctl, ...store });
  }

  #server(index: number): ContainerServer {
    return this.#servers[index] as ContainerServer;
  }

  async #restart(options: RestartOptions = {}): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    this.#formed = options.wipe !== true;
    await Promise.all(this.#servers.map((server) => server.restart(options)));
    this.#formed = true;
  }

  #replace(plan: Plan): Promise<void> {
    const others = this.#plans.filter((one) => one !== plan);
    const endpoints = others.map(({ published }) => endpointOf(this.#engine, published)).join(',');
    const ctl = ctlInContainer(() => this.#server(others[0]?.index ?? 0).container, endpoints);
    return replaceMember(ctl, plan.name, this.#peerUrl(plan));
  }
}
