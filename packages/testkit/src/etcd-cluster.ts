import { etcdClusterInContainers } from './containers/etcd-cluster.ts';
import { containerRoute } from './containers/route.ts';
import { TestkitError } from './errors.ts';
import { ClusterLaunch } from './etcd-cluster-launch.ts';
import type { EtcdCtl } from './etcd-ctl.ts';
import { isPortTaken } from './etcd-launcher.ts';
import type { PartitionGroup } from './etcd-partition.ts';
import type { EtcdOptions, EtcdServer } from './etcd-server.ts';
import type { EtcdStore, RestoreSnapshotOptions } from './etcd-store.ts';
import type { Fault } from './fault.ts';
import { chooseVersion, findEtcds, type ServerRoute } from './find-server.ts';
import { freePorts } from './free-ports.ts';
import type { RestartOptions } from './owned-server.ts';
import type { TcpProxy } from './tcp-proxy.ts';

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
