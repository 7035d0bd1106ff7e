import {
  canSlowDisk,
  type EtcdCluster,
  type EtcdMember,
  slowDisk,
  startEtcdCluster,
  startTcpProxy,
  type TcpProxy,
} from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { endure } from './endure.ts';

/** What can befall a member; each returns what heals it. */
const FAULTS = {
  'frozen follower': async (cluster, strike) => {
    const [follower] = (await cluster.followers()) as [EtcdMember];
    await strike(follower, frozen);
  },
  'frozen leader': async (cluster, strike) => strike(await cluster.leader(), frozen),
  'killed follower': async (cluster, strike) => {
    const [follower] = (await cluster.followers()) as [EtcdMember];
    await strike(follower, killed);
  },
  'killed leader': async (cluster, strike) => strike(await cluster.leader(), killed),
  'follower cut off from the others, without a leader': async (cluster, strike) => {
    const [follower] = (await cluster.followers()) as [EtcdMember];
    await strike(follower, (member) => cutOff(cluster, member));
  },
  'leader cut off from the others': async (cluster, strike) => {
    await strike(await cluster.leader(), (member) => cutOff(cluster, member));
  },
  'leader with a slow disk': async (cluster, strike) => strike(await cluster.leader(), slowed),
} satisfies Record<string, (cluster: EtcdCluster, strike: Strike) => Promise<void>>;

export type MemberFault = keyof typeof FAULTS;
export const MEMBER_FAULTS = (Object.keys(FAULTS) as readonly MemberFault[]).filter(
  (fault) => canSlowDisk() || fault !== 'leader with a slow disk',
);

type Strike = (struck: EtcdMember, fault: (member: EtcdMember) => Promise<() => unknown>) => Promise<void>;

async function frozen(member: EtcdMember): Promise<() => void> {
  await member.pause();
  return () => member.resume();
}

async function killed(member: EtcdMember): Promise<() => Promise<void>> {
  await member.kill();
  return () => member.restart();
}

/** Two flushes a write, so every write takes more than a second. */
async function slowed(member: EtcdMember): Promise<() => Promise<void>> {
  const slow = await slowDisk(member, { delayMs: 600 });
  return () => slow.restore();
}

async function cutOff(cluster: EtcdCluster, member: EtcdMember): Promise<() => void> {
  const isolation = cluster.isolate(member);
  return () => isolation.restore();
}

/** What can befall the way to a member. */
const WAYS: Record<string, (proxy: TcpProxy) => () => void> = {
  'packets dropped both ways': (proxy) => {
    const hole = proxy.blackhole();
    return () => hole.restore();
  },
  'a mute member, which takes requests and answers none': (proxy) => {
    const hole = proxy.blackhole('reply');
    return () => hole.restore();
  },
  'requests that never arrive': (proxy) => {
    const hole = proxy.blackhole('request');
    return () => hole.restore();
  },
  'new connections refused, old ones reset': (proxy) => {
    const refusal = proxy.refuse();
    proxy.cut({ rst: true });
    return () => refusal.restore();
  },
  'a slow link': (proxy) => {
    proxy.setLatency(1_000);
    return () => proxy.setLatency(0);
  },
  'connections reset again and again': (proxy) => {
    const cutting = setInterval(() => proxy.cut({ rst: true }), 300);
    return () => clearInterval(cutting);
  },
};

export interface OneMemberPlan {
  readonly faults: readonly MemberFault[];
  /** At least 5,000. */
  readonly ttlMs: number;
  /** Whether the faults on the way come at once, each with its own clients. */
  readonly concurrent: boolean;
}

/** F11, F5, F1, B2: whatever befalls one member of three, no hold with a TTL of 5 s or more is lost. */
export function describeOneMember(version: string, { faults, ttlMs, concurrent }: OneMemberPlan): void {
  describe(`one of three members of etcd ${version}`, () => {
    let cluster: EtcdCluster;
    beforeAll(async () => {
      cluster = await startEtcdCluster({ version, isolatable: true });
    });
    afterAll(() => cluster.stop());

    const healthyWithout = (struck: EtcdMember) =>
      cluster.members.filter((member) => member !== struck).map(({ endpoint }) => endpoint);

    describe('a fault on the way to it costs no hold', { concurrent }, () => {
      it.each(Object.entries(WAYS))('%s', async (_, strike) => {
        const [struck] = cluster.members as [EtcdMember];
        await using proxy = await startTcpProxy(struck.endpoint);
        const healthy = healthyWithout(struck);
        await endure({ hosts: [proxy.url, ...healthy], healthy, ttlMs, strike: async () => strike(proxy) });
      });
    });

    it.each(faults)('%s: no hold is lost', async (fault) => {
      await FAULTS[fault](cluster, async (struck, strike) => {
        const healthy = healthyWithout(struck);
        const hosts = [struck.endpoint, ...healthy];
        await endure({ hosts, healthy, ttlMs, strike: () => strike(struck) });
      });
    });
  });
}
