import { TestkitError } from './errors.ts';
import type { EtcdMember } from './etcd-cluster.ts';
import { type Fault, faultOf } from './fault.ts';
import type { PeerLinks, PeerPorts } from './peer-links.ts';

/** One side of a partition: members of the cluster, and perhaps its clients. */
export type PartitionGroup = readonly (EtcdMember | 'clients')[];

/** What a partition needs to know of a member. */
export interface PartitionedMember {
  readonly member: EtcdMember;
  readonly peer: PeerPorts;
}

/** Cuts groups off from each other: see {@link EtcdCluster.partition}. */
export function partitionMembers(
  groups: readonly PartitionGroup[],
  members: readonly PartitionedMember[],
  links: PeerLinks | undefined,
): Fault {
  checkGroups(groups, members);
  const portsOf = (group: PartitionGroup) =>
    members.filter(({ member }) => group.includes(member)).map(({ peer }) => peer);
  const peers = groups.map(portsOf).filter((group) => group.length > 0);
  if (peers.length > 1 && links === undefined) {
    throw new TestkitError(
      'invalid-option',
      'members are cut off from each other only in a cluster started with isolatable',
    );
  }
  const faults = [
    ...(peers.length > 1 && links !== undefined ? [links.partition(peers)] : []),
    ...outOfClientsReach(groups).map((member) => wayTo(member).blackhole()),
  ];
  return faultOf(() => {
    for (const fault of faults) fault.restore();
  });
}

function outOfClientsReach(groups: readonly PartitionGroup[]): EtcdMember[] {
  if (!groups.some((group) => group.includes('clients'))) return [];
  return groups
    .filter((group) => !group.includes('clients'))
    .flat()
    .filter((one) => one !== 'clients');
}

function wayTo({ name, proxy }: EtcdMember) {
  if (proxy !== undefined) return proxy;
  const why = `${name} is cut off from clients only in a cluster started with proxied`;
  throw new TestkitError('invalid-option', why);
}

function checkGroups(groups: readonly PartitionGroup[], members: readonly PartitionedMember[]): void {
  const named = groups.flat();
  if (groups.length < 2 || groups.some(({ length }) => length === 0)) {
    const sizes = groups.map(({ length }) => length).join(', ');
    throw new TestkitError(
      'invalid-option',
      `groups have ${sizes || 'no'} members; expected two groups or more`,
    );
  }
  if (new Set(named).size < named.length) {
    throw new TestkitError('invalid-option', 'a member is in two groups of a partition');
  }
  for (const one of named) {
    if (one === 'clients' || members.some(({ member }) => member === one)) continue;
    throw new TestkitError('invalid-option', `${one.name} at ${one.endpoint} is no member of this cluster`);
  }
}
