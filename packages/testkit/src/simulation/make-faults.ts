import { type ClientPlan, type Fault, isHarmless } from './plan.ts';
import type { Random } from './random.ts';

type Maker = (random: Random, at: number) => Fault;

/** What befalls the clients and the servers, and when. Whole kinds are on or off. */
export function makeFaults(
  random: Random,
  clients: readonly ClientPlan[],
  queues: readonly [string, ...string[]],
  lasting: number,
  calm: boolean,
): Fault[] {
  const client = (from: Random) => from.pick(clients.map(({ name }) => name) as [string, ...string[]]);
  const queue = (from: Random) => from.pick(queues);
  const place = (from: Random) => from.whole(0, calm ? 1 : 2);
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
      likely: calm ? 0.35 : 0.15,
      most: calm ? 8 : 3,
      make: (r, at) => ({ at, kind: 'delete key', queue: queue(r), place: place(r) }),
    },
    {
      likely: calm ? 0.35 : 0.1,
      most: calm ? 8 : 2,
      make: (r, at) => ({ at, kind: 'overwrite key', queue: queue(r), place: place(r) }),
    },
    {
      likely: 0.25,
      most: 4,
      make: (r, at) => ({ at, kind: 'revoke', client: client(r), isIdle: r.chance(0.5) }),
    },
    {
      likely: 0.3,
      most: 3,
      make: (r, at) => ({ at, kind: 'stranger queues', queue: queue(r), ms: r.skewed(10, 4_000) }),
    },
    { likely: 0.25, most: 4, make: (r, at) => ({ at, kind: 'revoke next lease', client: client(r) }) },
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
