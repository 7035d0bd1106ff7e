import type { Coordinator, EndpointHealth } from './coordinator/coordinator.ts';
import type { Session } from './session/session.ts';
import { within } from './signals.ts';
import { duration } from './validation.ts';

export interface HealthOptions {
  /** How long etcd may take to tell its version, in milliseconds. Default 2,000. */
  readonly timeoutMs?: number | undefined;
}

/** What a keeper knows of itself at one moment. Plain data, ready for JSON. */
export interface KeeperHealth {
  /** `etcd 3.5.30`; `undefined` where nobody answered in time. */
  readonly coordinator: string | undefined;
  readonly endpoints: readonly EndpointHealth[];
  /** What an operator should know, a sentence each; empty where all is well. */
  readonly warnings: readonly string[];
  /** The lease that everything rests on; `undefined` before the first acquire. */
  readonly session: SessionHealth | undefined;
  /** Granted and not released yet, the lost ones among them included. */
  readonly holds: number;
  /** Queued, or being granted. */
  readonly waits: number;
  /** Releases and other endings that etcd has not confirmed; each is repeated until it does or the lease ends. */
  readonly unconfirmedReleases: number;
}

/** The state of a session. Times are milliseconds. */
export interface SessionHealth {
  /** The lease in hex, as `etcdctl` prints it. */
  readonly id: string;
  /** `suspect`: a renewal is overdue or refused, or the clock is in doubt. `lost`: the next acquire opens a new one. */
  readonly standing: 'held' | 'suspect' | 'lost';
  /** The time-to-live that etcd granted. */
  readonly ttlMs: number;
  /** Until the holds on it are given up unless a renewal is confirmed. */
  readonly remainingMs: number;
  /** Since the last confirmed grant or renewal was sent. */
  readonly unconfirmedForMs: number;
  /** How late the last renewal was sent, or the due one is; more than a few hundred speaks of a stalled process. */
  readonly renewalLagMs: number;
}

export type KeeperCounts = Pick<KeeperHealth, 'holds' | 'waits' | 'unconfirmedReleases'> & {
  readonly session: Session | undefined;
};

const DEFAULT_TIMEOUT_MS = 2_000;

/** @param look - called last, so that everything in the answer is of the same moment. */
export async function readHealth(
  options: HealthOptions,
  coordinator: Coordinator,
  look: () => KeeperCounts,
): Promise<KeeperHealth> {
  const timeoutMs = duration('timeoutMs', options.timeoutMs ?? DEFAULT_TIMEOUT_MS, { min: 1 });
  const told = await askVersion(coordinator, timeoutMs);
  const { session, ...counts } = look();
  return {
    coordinator: told.version,
    endpoints: coordinator.endpoints(),
    warnings: told.version === undefined ? [told.why] : versionWarnings(told.version),
    session: session && sessionHealth(session),
    ...counts,
  };
}

type Told = { readonly version: string } | { readonly version: undefined; readonly why: string };

async function askVersion(coordinator: Coordinator, timeoutMs: number): Promise<Told> {
  const asked = coordinator.describe({ timeoutMs }).then(
    (version): Told => ({ version }),
    (error: unknown): Told => {
      const why = error instanceof Error ? error.message : String(error);
      return { version: undefined, why: `the coordinator did not answer: ${why}` };
    },
  );
  const told = await within(coordinator.clock, timeoutMs, asked);
  return told ?? { version: undefined, why: `the coordinator did not answer within ${timeoutMs} ms` };
}

function sessionHealth(session: Session): SessionHealth {
  const { id, standing, ttlMs } = session;
  return {
    id,
    standing,
    ttlMs,
    remainingMs: Math.floor(session.remainingMs()),
    unconfirmedForMs: Math.ceil(session.unconfirmedForMs),
    renewalLagMs: Math.round(session.renewalLagMs),
  };
}

/** Faults of etcd that weaken a lock, with the first release of each line that is free of them. */
const MENDED: readonly { readonly since: readonly string[]; readonly fault: string }[] = [
  {
    since: ['3.5.23', '3.6.5'],
    fault:
      'could confirm the renewal of a lease that was revoked, so that a holder learnt of its loss too late',
  },
  {
    since: ['3.5.22'],
    fault:
      'could lose watch events, so that a waiter found out only by its poll every 15 s that it was its turn',
  },
  {
    since: ['3.5.13'],
    fault: 'could revoke leases that were alive after their leader had stalled, which cost holders the lock',
  },
  {
    since: ['3.5.28', '3.6.9'],
    fault: 'did not check rights inside nested transactions, so that every user of etcd could write our keys',
  },
];

const RECOMMENDED = '3.5.30';

/** @internal What a coordinator's description of itself gives cause to say. */
export function versionWarnings(description: string): readonly string[] {
  if (!description.startsWith('etcd')) return [];
  const version = /^etcd (\d+\.\d+\.\d+)/.exec(description)?.[1];
  if (version === undefined) {
    return [
      `etcd does not tell its version to this user (only to one with the role root): make sure that it is ${RECOMMENDED} or later`,
    ];
  }
  const faults = MENDED.filter(({ since }) => isBefore(version, since)).map(
    ({ since, fault }) => `this is etcd ${version}: releases before ${since.join(' and ')} ${fault}`,
  );
  if (!isBefore(version, [RECOMMENDED])) return faults;
  return [`this is etcd ${version}: upgrade to ${RECOMMENDED} or later`, ...faults];
}

/** Whether `version` is older than the one of `releases` that belongs to its line, or than all of them. */
function isBefore(version: string, releases: readonly string[]): boolean {
  const own = releases.find((release) => lineOf(release) === lineOf(version)) ?? releases[0];
  return own !== undefined && compareVersions(version, own) < 0;
}

function lineOf(version: string): string {
  return version.split('.', 2).join('.');
}

function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number)) as [number[], number[]];
  for (const [index, part] of left.entries()) {
    const difference = part - (right[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
