import { type Clock, sleep } from '../clock.ts';
import {
  type CallOptions,
  type Coordinator,
  type KeyValue,
  prefixSpan,
  type RangeRequest,
  type Watch,
} from '../coordinator/coordinator.ts';
import type { LockkeeperError } from '../errors.ts';
import { AbortScope, type AbortSignalLike } from '../signals.ts';
import { type Acquisition, isDowngraded, type QueuePlace } from './acquisition.ts';
import { BackOff, untilReached } from './back-off.ts';
import { POLL_MS } from './following.ts';
import type { SpoilCause } from './hold.ts';
import type { LockHost } from './lock-host.ts';
import type { Verdict } from './queue-mirror.ts';

/** Where we stand at the revision of a read: `behind` whom, one a queue; nobody, then it is our turn. */
interface Turn {
  readonly behind: readonly string[];
  readonly revision: bigint;
}

/**
 * What the mirror shows of our turn, when it shows the end of the waiting; `too-long` at once, where there is no mirror of
 * all our queues. Not async: whoever waits keeps no frame more than his own.
 */
export function seeTurn(
  { mirrors }: LockHost,
  acquisition: Acquisition,
  signal: AbortSignalLike,
): Promise<Verdict> {
  const [place, ...more] = acquisition.queues;
  const isOne = place !== undefined && more.length === 0;
  return isOne ? mirrors.wait(acquisition, place, signal) : Promise.resolve('too-long');
}

/**
 * Resolves when nobody stands before us in any of our queues, our keys are intact and the session stands.
 *
 * @param verdict - what {@link seeTurn} told.
 * @param behind - the predecessors, where the enqueue told.
 * @throws LockkeeperError `lost-while-waiting` as soon as a key of ours or the lease is gone, or the signal's reason.
 */
export async function waitTurn(
  verdict: Exclude<Verdict, 'in-front'>,
  coordinator: Coordinator,
  acquisition: Acquisition,
  behind: readonly string[] | undefined,
  signal: AbortSignalLike,
): Promise<void> {
  if (verdict !== 'too-long') throw await lostKey(acquisition, verdict);
  await waitBehind(coordinator, acquisition, behind, signal);
}

/**
 * Watches our own keys and our predecessors alone, in several queues or in one that is too long to be mirrored. Events
 * only say when to look; what they mean is decided by a linearizable read, because a predecessor that leaves may just
 * have given up, and our own key may have gone in the meantime.
 */
async function waitBehind(
  coordinator: Coordinator,
  acquisition: Acquisition,
  behind: readonly string[] | undefined,
  signal: AbortSignalLike,
): Promise<void> {
  const { revision } = acquisition;
  const wake = new WakeUp();
  const backOff = new BackOff(coordinator.clock);
  let startRevision = revision + 1n;
  let predecessors = behind;
  for (;;) {
    if (predecessors !== undefined) {
      await somethingHappened(coordinator, acquisition, predecessors, startRevision, wake, signal);
      // A watch that ends at once, again and again, must not become a busy loop.
      if (wake.watchEnded) await backOff.wait(signal);
    }
    const turn = await decide(coordinator, acquisition, revision, signal);
    if (turn.behind.length === 0) return;
    predecessors = turn.behind;
    startRevision = turn.revision + 1n;
  }
}

/** Waits until something happened to a predecessor's key or to our own, or until it is time to look anyway. */
async function somethingHappened(
  coordinator: Coordinator,
  acquisition: Acquisition,
  predecessors: readonly string[],
  startRevision: bigint,
  wake: WakeUp,
  signal: AbortSignalLike,
): Promise<void> {
  wake.watchEnded = false;
  const keys = [...acquisition.queues.map(({ key }) => key), ...predecessors];
  const watches = keys.map((key) => watchKey(coordinator, key, startRevision, wake));
  try {
    await wake.next(coordinator.clock, signal);
  } finally {
    for (const watch of watches) watch.close();
  }
}

function watchKey(coordinator: Coordinator, key: string, startRevision: bigint, wake: WakeUp): Watch {
  return coordinator.watch(
    { key, startRevision },
    {
      onEvents: () => wake.ring(),
      onEnd: () => {
        wake.watchEnded = true;
        wake.ring();
      },
    },
  );
}

/** The deciding read, of all queues at one revision. */
async function decide(
  coordinator: Coordinator,
  acquisition: Acquisition,
  token: bigint,
  signal: AbortSignalLike,
): Promise<Turn> {
  const { places, revision } = await untilReached(coordinator.clock, signal, () =>
    readPlaces(coordinator, acquisition, token, { signal }),
  );
  if (places.some(({ own }) => own?.createRevision !== token))
    throw await lostKey(acquisition, 'key-deleted');
  if (places.some(({ own }) => own?.modRevision !== token)) throw await lostKey(acquisition, 'foreign-write');
  return { behind: places.flatMap(({ before }) => before?.key ?? []), revision };
}

/** What becomes of a wait whose key is gone, or was written by somebody else. */
export async function lostKey(acquisition: Acquisition, cause: SpoilCause): Promise<LockkeeperError> {
  const { session } = acquisition;
  // It may have gone with the lease; a renewal tells.
  if (cause === 'key-deleted') await session.renewNow();
  return acquisition.lostWhileWaiting(session.lossCause ?? cause);
}

interface Seen {
  readonly own: KeyValue | undefined;
  /** The last of those before us. */
  readonly before: KeyValue | undefined;
}

/** Reads our own key in each queue, and the last rival that was created no later than we. */
async function readPlaces(
  coordinator: Coordinator,
  { queues: places }: Acquisition,
  token: bigint,
  call: CallOptions,
): Promise<{ readonly places: readonly Seen[]; readonly revision: bigint }> {
  const requests = places.flatMap((place) => {
    const rivals: RangeRequest = {
      ...prefixSpan(place.queue.rivals),
      maxCreateRevision: token,
      sort: { by: 'createRevision', order: 'descend' },
      limit: 2,
      // Whether a writer has become a reader, its value tells.
      keysOnly: !place.queue.sharesWithDowngraded,
    };
    return isAmongRivals(place) ? [rivals] : [rivals, { key: place.key, keysOnly: true }];
  });
  const { replies, revision } = await readAll(coordinator, requests, call);
  const next = () => replies.shift() ?? [];
  const seen = places.map((place) => {
    const rivals = next();
    const own = isAmongRivals(place) ? rivals.find(({ key }) => key === place.key) : next()[0];
    const before = rivals.find(({ key }) => key !== place.key);
    const passes = before !== undefined && place.queue.sharesWithDowngraded && isDowngraded(before);
    return { own, before: passes ? undefined : before };
  });
  return { places: seen, revision };
}

const isAmongRivals = ({ key, queue }: QueuePlace): boolean => key.startsWith(queue.rivals);

/** Several ranges at one revision are a transaction; its ranges are linearizable like a range of its own. */
async function readAll(
  coordinator: Coordinator,
  requests: readonly RangeRequest[],
  call: CallOptions,
): Promise<{ replies: (readonly KeyValue[])[]; revision: bigint }> {
  const [only, ...more] = requests;
  if (only !== undefined && more.length === 0) {
    const { kvs, revision } = await coordinator.range(only, call);
    return { replies: [kvs], revision };
  }
  const success = requests.map((request) => ({ op: 'range' as const, ...request }));
  const { results, revision } = await coordinator.txn({ compare: [], success, failure: [] }, call);
  return { replies: results.map((result) => (result.op === 'range' ? result.kvs : [])), revision };
}

/** A bell that stays rung until somebody listens. */
export class WakeUp {
  /** Whether a watch that rang had ended, so that its events may be incomplete. */
  watchEnded = false;
  #rung = false;
  #listener: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#listener?.();
  }

  async next(clock: Clock, signal: AbortSignalLike): Promise<void> {
    if (!this.#rung) {
      using scope = new AbortScope().follow(signal);
      this.#listener = () => scope.abort(undefined);
      await sleep(clock, POLL_MS, { signal: scope }).catch(() => undefined);
      this.#listener = undefined;
      signal.throwIfAborted();
    }
    this.#rung = false;
  }
}
