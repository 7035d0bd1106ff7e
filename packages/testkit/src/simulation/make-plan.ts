import { makeFaults } from './make-faults.ts';
import type { NetworkPlan } from './network.ts';
import type { ClientPlan, Onlooker, Plan, Visit, WorkStep } from './plan.ts';
import { Random } from './random.ts';
import { queuesOf, type Target } from './target.ts';

const NAMES = ['red', 'green', 'blue'] as const;
const MORE_NAMES = ['black', 'white', 'grey'] as const;

/** What of all kinds there is in a world, and how often each kind is wanted. */
interface Things {
  readonly names: readonly [string, ...string[]];
  readonly kinds: readonly [Target['kind'], ...Target['kind'][]];
  /** What its users believe a semaphore to have: mostly the same. */
  readonly permits: readonly [number, ...number[]];
  /** Whoever can asks for it, or nobody does. */
  readonly lockDelayMs: number | undefined;
}

/** Many worlds are about one kind of thing, so that it is contended for; in some, everything meets. */
const MIXES: readonly [Things['kinds'], ...Things['kinds'][]] = [
  ['lock'],
  ['lock'],
  ['lock', 'set'],
  ['lock', 'set'],
  ['read', 'read', 'write'],
  ['read', 'write'],
  ['election'],
  ['election'],
  ['semaphore'],
  ['semaphore'],
  ['lock', 'set', 'read', 'write', 'semaphore', 'election'],
];

/**
 * The plan of a seed. Each seed turns whole kinds of faults and of locks on or off, so that some worlds are
 * calm, some suffer from one thing only, and some from everything at once.
 */
export function makePlan(seed: string): Plan {
  const random = new Random(`plan/${seed}`);
  const lasting = random.between(8_000, 30_000);
  const kinds = random.pick(MIXES);
  const some = NAMES.slice(0, random.whole(kinds.includes('set') ? 2 : 1, kinds.length > 3 ? 2 : 3));
  const things: Things = {
    kinds,
    names: some as [string, ...string[]],
    permits: makePermits(random.fork('permits')),
    lockDelayMs: makeDelay(random.fork('delay')),
  };
  const claiming = random.chance(0.8);
  const calm = random.chance(0.18);
  const clients = Array.from({ length: random.whole(2, 5) }, (_, index) =>
    makeClient(random.fork(`client ${index}`), `client-${index + 1}`, things, lasting, claiming, calm),
  );
  return {
    seed,
    clients,
    network: calm ? UNDISTURBED : makeNetwork(random.fork('network')),
    faults: makeFaults(random.fork('faults'), clients, queuesIn(things), lasting, calm),
    faultsUntilMs: lasting,
    requireClaim: claiming && random.chance(0.3),
    spared: [],
  };
}

const UNDISTURBED: NetworkPlan = {
  slow: 0,
  slowestMs: 50,
  loseRequest: 0,
  loseReply: 0,
  duplicate: 0,
  reset: 0,
  refuse: 0,
};

function makeNetwork(random: Random): NetworkPlan {
  const some = (likely: number, most: number): number =>
    random.chance(likely) ? random.skewed(0.005, most) : 0;
  return {
    slow: some(0.6, 0.3),
    slowestMs: random.pick([50, 500, 3_000, 9_000]),
    loseRequest: some(0.5, 0.25),
    loseReply: some(0.5, 0.25),
    duplicate: some(0.3, 0.2),
    reset: some(0.4, 0.2),
    refuse: some(0.1, 0.05),
  };
}

function makeClient(
  random: Random,
  name: string,
  things: Things,
  lasting: number,
  claiming: boolean,
  calm: boolean,
): ClientPlan {
  // A crowd acts in the same moments, and about more things, so that much of what it does goes out together.
  const crowd = random.fork('crowd');
  const isCrowd = crowd.chance(0.35);
  const isolated = crowd.pick([0.1, 0.5, 1]);
  const few = random.whole(1, 3);
  const workers = Array.from({ length: isCrowd ? crowd.whole(4, 8) : few }, (_, worker) => {
    const visits: Visit[] = [];
    const count = random.whole(1, 6);
    for (let at = 0; at < count; at += 1) {
      const id = `${name}.${worker + 1}.${at + 1}`;
      const about = isCrowd ? { ...things, names: [...things.names, ...MORE_NAMES] as const } : things;
      const visit = makeVisit(random.fork(id), id, about, lasting / count, claiming, calm);
      visits.push(isCrowd ? inCrowd(visit, crowd, isolated) : visit);
    }
    return visits;
  });
  return {
    name,
    clockRate: random.chance(0.5) ? 1 : random.between(0.95, 1.05),
    ttlMs: makeTtl(random),
    groupCommit: random.fork('group commit').chance(0.75),
    momentMs: isCrowd ? crowd.pick([250, 1_000, 3_000]) : undefined,
    workers,
    onlookers: things.kinds.includes('election')
      ? makeOnlookers(random.fork('onlookers'), things, lasting)
      : [],
  };
}

function inCrowd(visit: Visit, random: Random, isolated: number): Visit {
  const ownTtlMs = visit.ownTtlMs ?? (random.chance(isolated) ? makeTtl(random) : undefined);
  const abortAfterMs = random.chance(0.3) ? random.skewed(0, 3_000) : visit.abortAfterMs;
  // Most of them leave together too.
  const last: WorkStep[] = random.chance(0.7) ? [{ do: 'think', ms: 0 }] : [];
  return { ...visit, ownTtlMs, abortAfterMs, work: [...visit.work, ...last] };
}

function makeOnlookers(random: Random, { names }: Things, lasting: number): Onlooker[] {
  if (random.chance(0.4)) return [];
  return Array.from({ length: random.whole(1, 2) }, () => ({
    election: random.pick(names),
    fromMs: random.skewed(0, lasting),
    forMs: random.chance(0.3) ? random.between(0, lasting) : undefined,
    slowMs: random.pick([0, 20, 500]),
  }));
}

function makeTtl(random: Random): number {
  return random.pick([2_000, 3_000, 5_000]);
}

function makeDelay(random: Random): number | undefined {
  return random.chance(0.25) ? random.pick([1_500, 3_000]) : undefined;
}

function makePermits(random: Random): Things['permits'] {
  const permits = random.whole(1, 3);
  return random.chance(0.25) ? [permits, permits, permits + 1] : [permits];
}

function makeTarget(random: Random, { kinds, names, permits }: Things): Target {
  const kind = random.pick(kinds);
  if (kind === 'semaphore') return { kind, name: random.pick(names), permits: random.pick(permits) };
  if (kind !== 'set') return { kind, name: random.pick(names) };
  const members = names.filter(() => random.chance(0.7));
  // The order in which they are named must not matter.
  if (random.chance(0.5)) members.reverse();
  return { kind, names: members.length > 0 ? members : names };
}

function queuesIn({ kinds, names, permits }: Things): [string, ...string[]] {
  const queues = kinds.flatMap((kind) =>
    kind === 'set' ? [] : names.flatMap((name) => queuesOf({ kind, name, permits: permits[0] })),
  );
  return [...new Set(queues)] as [string, ...string[]];
}

function makeVisit(
  random: Random,
  id: string,
  things: Things,
  pace: number,
  claiming: boolean,
  calm: boolean,
): Visit {
  const target = makeTarget(random.fork('target'), things);
  const how = random.pick<Visit['how']>([
    'acquire',
    'acquire',
    'using',
    target.kind === 'election' ? 'using' : 'try',
  ]);
  const claims = claiming && random.chance(0.8);
  return {
    id,
    target,
    restMs: random.skewed(0, pace),
    how,
    ...makeLifetime(random.fork('lifetime')),
    waitTimeoutMs: how !== 'try' && random.chance(0.35) ? random.skewed(0, 6_000) : undefined,
    ...makeManners(random.fork('manners'), target, things),
    abortAfterMs: random.chance(0.2) ? random.skewed(0, 5_000) : undefined,
    claims,
    claimTimeoutMs: random.pick([1_000, 4_000, 10_000]),
    work: makeWork(random, target, claims, how, calm),
    end: random.pick(['release', 'release', 'release twice', 'release, then write']),
  };
}

/** How it deals with others. */
function makeManners(
  random: Random,
  { kind }: Target,
  { lockDelayMs }: Things,
): Pick<Visit, 'lockDelayMs' | 'asksAfterMs' | 'listens'> {
  const isAskedFor = kind !== 'election' && kind !== 'semaphore';
  return {
    lockDelayMs: kind === 'read' || kind === 'write' ? undefined : lockDelayMs,
    asksAfterMs: isAskedFor && random.chance(0.15) ? random.skewed(0, 3_000) : undefined,
    listens: isAskedFor && random.chance(0.4),
  };
}

function makeLifetime(random: Random): Pick<Visit, 'ownTtlMs' | 'minHoldMs' | 'maxHoldMs'> {
  const minHoldMs = random.chance(0.08) ? random.skewed(0, 3_000) : 0;
  return {
    ownTtlMs: random.chance(0.1) ? makeTtl(random) : undefined,
    minHoldMs,
    maxHoldMs: random.chance(0.1) ? minHoldMs + random.skewed(50, 6_000) : undefined,
  };
}

function makeWork(
  random: Random,
  { kind }: Target,
  claims: boolean,
  how: Visit['how'],
  calm: boolean,
): WorkStep[] {
  const work = Array.from({ length: random.whole(0, 4) }, (): WorkStep => {
    const stallMs = !calm && random.chance(0.15) ? random.skewed(10, 9_000) : 0;
    const wait = random.chance(0.7);
    const choice = random.next();
    // In calm worlds, what happens to a hold is noticed within a second or so.
    if (choice < 0.35) return { do: 'think', ms: calm ? random.between(0, 3_000) : random.skewed(0, 2_500) };
    if (choice < 0.6 && kind === 'election') return { do: 'proclaim', await: wait };
    if (choice < 0.65 && claims)
      return { do: kind === 'read' ? 'guarded read' : 'guarded write', stallMs, await: wait };
    if (choice < 0.85 && kind !== 'read') return { do: 'etcd write', stallMs, await: wait };
    if (choice > 0.97 && how === 'using') return { do: 'throw' };
    return { do: 'look' };
  });
  if (kind !== 'write' || !random.chance(0.5)) return work;
  const read: WorkStep = { do: 'guarded read', stallMs: 0, await: true };
  return [
    ...work,
    { do: 'downgrade' },
    { do: 'think', ms: random.between(0, 3_000) },
    ...(claims && random.chance(0.5) ? [read] : []),
  ];
}
