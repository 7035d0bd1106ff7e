import type { NetworkPlan } from './network.ts';
import { type ClientPlan, type Fault, isHarmless, type Plan, type Visit, type WorkStep } from './plan.ts';
import { Random } from './random.ts';

const NAMES = ['red', 'green', 'blue'] as const;

/**
 * The plan of a seed. Each seed turns whole kinds of faults on or off, so that some worlds are calm, some
 * suffer from one thing only, and some from everything at once.
 */
export function makePlan(seed: string): Plan {
  const random = new Random(`plan/${seed}`);
  const lasting = random.between(8_000, 30_000);
  const locks = NAMES.slice(0, random.whole(1, 3));
  const claiming = random.chance(0.8);
  const calm = random.chance(0.12);
  const clients = Array.from({ length: random.whole(2, 5) }, (_, index) =>
    makeClient(random.fork(`client ${index}`), `client-${index + 1}`, locks, lasting, claiming, calm),
  );
  return {
    seed,
    clients,
    network: calm ? UNDISTURBED : makeNetwork(random.fork('network')),
    faults: makeFaults(random.fork('faults'), clients, locks, lasting, calm),
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
  locks: readonly string[],
  lasting: number,
  claiming: boolean,
  calm: boolean,
): ClientPlan {
  const workers = Array.from({ length: random.whole(1, 3) }, (_, worker) => {
    const visits: Visit[] = [];
    const count = random.whole(1, 6);
    for (let at = 0; at < count; at += 1) {
      const id = `${name}.${worker + 1}.${at + 1}`;
      visits.push(makeVisit(random.fork(id), id, locks, lasting / count, claiming, calm));
    }
    return visits;
  });
  return {
    name,
    clockRate: random.chance(0.5) ? 1 : random.between(0.95, 1.05),
    ttlMs: random.pick([2_000, 3_000, 5_000]),
    workers,
  };
}

function makeVisit(
  random: Random,
  id: string,
  locks: readonly string[],
  pace: number,
  claiming: boolean,
  calm: boolean,
): Visit {
  const how = random.pick<Visit['how']>(['acquire', 'acquire', 'using', 'try']);
  const claims = claiming && random.chance(0.8);
  return {
    id,
    lock: random.pick(locks as [string, ...string[]]),
    restMs: random.skewed(0, pace),
    how,
    waitTimeoutMs: how !== 'try' && random.chance(0.35) ? random.skewed(0, 6_000) : undefined,
    abortAfterMs: random.chance(0.2) ? random.skewed(0, 5_000) : undefined,
    claims,
    claimTimeoutMs: random.pick([1_000, 4_000, 10_000]),
    work: makeWork(random, claims, how, calm),
    end: random.pick(['release', 'release', 'release twice', 'release, then write']),
  };
}

function makeWork(random: Random, claims: boolean, how: Visit['how'], calm: boolean): WorkStep[] {
  return Array.from({ length: random.whole(0, 4) }, (): WorkStep => {
    const stallMs = !calm && random.chance(0.15) ? random.skewed(10, 9_000) : 0;
    const wait = random.chance(0.7);
    const choice = random.next();
    if (choice < 0.35) return { do: 'think', ms: random.skewed(0, 2_500) };
    if (choice < 0.65 && claims) return { do: 'guarded write', stallMs, await: wait };
    if (choice < 0.85) return { do: 'etcd write', stallMs, await: wait };
    if (choice > 0.97 && how === 'using') return { do: 'throw' };
    return { do: 'look' };
  });
}

type Maker = (random: Random, at: number) => Fault;

function makeFaults(
  random: Random,
  clients: readonly ClientPlan[],
  locks: readonly string[],
  lasting: number,
  calm: boolean,
): Fault[] {
  const client = (from: Random) => from.pick(clients.map(({ name }) => name) as [string, ...string[]]);
  const lock = (from: Random) => from.pick(locks as [string, ...string[]]);
  const kinds: readonly { readonly likely: number; readonly most: number; readonly make: Maker }[] = [
    {
      likely: 0.5,
      most: 5,
      make: (r, at) => ({ at, kind: 'stop', client: client(r), ms: r.skewed(50, 12_000) }),
    },
    {
      likely: 0.35,
      most: 4,
      make: (r, at) => ({ at, kind: 'cut off', client: client(r), ms: r.skewed(50, 9_000) }),
    },
    {
      likely: 0.25,
      most: 3,
      make: (r, at) => ({ at, kind: 'suspend', client: client(r), ms: r.skewed(50, 12_000) }),
    },
    { likely: 0.15, most: 1, make: (r, at) => ({ at, kind: 'kill', client: client(r) }) },
    { likely: 0.25, most: 2, make: (r, at) => ({ at, kind: 'close', client: client(r) }) },
    { likely: 0.4, most: 6, make: (r, at) => ({ at, kind: 'break watches', client: client(r) }) },
    {
      likely: 0.3,
      most: 3,
      make: (r, at) => ({
        at,
        kind: 'step wall time',
        client: client(r),
        ms: r.between(-20_000, r.pick([0, 20_000])),
      }),
    },
    { likely: 0.25, most: 2, make: (r, at) => ({ at, kind: 'stop etcd', ms: r.skewed(100, 9_000) }) },
    { likely: 0.25, most: 2, make: (r, at) => ({ at, kind: 'restart etcd', ms: r.skewed(100, 9_000) }) },
    { likely: 0.25, most: 3, make: (r, at) => ({ at, kind: 'lose leader', ms: r.skewed(1_000, 6_000) }) },
    { likely: 0.2, most: 2, make: (r, at) => ({ at, kind: 'stop storage', ms: r.skewed(100, 9_000) }) },
    { likely: 0.35, most: 5, make: (r, at) => ({ at, kind: 'compact', back: r.whole(0, 5) }) },
    {
      likely: 0.15,
      most: 3,
      make: (r, at) => ({ at, kind: 'delete key', lock: lock(r), place: r.whole(0, 2) }),
    },
    {
      likely: 0.1,
      most: 2,
      make: (r, at) => ({ at, kind: 'overwrite key', lock: lock(r), place: r.whole(0, 2) }),
    },
    { likely: 0.15, most: 2, make: (r, at) => ({ at, kind: 'revoke', client: client(r) }) },
    {
      likely: 0.3,
      most: 3,
      make: (r, at) => ({ at, kind: 'stranger queues', lock: lock(r), ms: r.skewed(10, 4_000) }),
    },
  ];
  const faults = kinds
    .flatMap(({ likely, most, make }) =>
      random.chance(calm ? 2 * likely : likely)
        ? Array.from({ length: random.whole(1, most) }, () => make(random, random.between(0, lasting)))
        : [],
    )
    .filter(({ kind }) => !calm || isHarmless(kind))
    .sort((a, b) => a.at - b.at);
  // A wall clock that is set back while its machine sleeps hides the sleep: nothing in the process can tell.
  const sleeps = faults.some(({ kind }) => kind === 'suspend');
  return faults.filter((fault) => !(sleeps && fault.kind === 'step wall time' && fault.ms < 0));
}
