import type { Clock } from '../clock.ts';
import type { Coordinator, KeySpan, KeyValue, WatchEvent } from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import { printable } from '../json.ts';
import { BackOff } from '../lock/back-off.ts';
import { unlessAborted } from '../signals.ts';

/** Who leads, as etcd had it at some revision. `JSON.stringify` prints its bigints as decimal strings. */
export interface Leader {
  /** What the leader proclaims. */
  readonly value: string;
  /** The revision of its term's token: rises from leader to leader. */
  readonly revision: bigint;
  /** The revision at which the value was written. */
  readonly valueRevision: bigint;
  readonly key: string;
  /** 0n: the key was detached from its lease and blocks until an operator removes it. */
  readonly lease: bigint;
}

export function leaderOf(kv: KeyValue | undefined): Leader | undefined {
  if (kv === undefined) return undefined;
  const { key, lease, createRevision, modRevision } = kv;
  return printable({
    value: new TextDecoder().decode(kv.value),
    revision: createRevision,
    valueRevision: modRevision,
    key,
    lease,
  });
}

/**
 * Every change of the leader and of its value, in the order of revisions, from the state at the first read on.
 * The leader is computed from the full set of candidates at each revision, never from single events. After a
 * gap that etcd cannot fill (compaction) it goes on with the state after the gap.
 */
export async function* observeLeader(
  coordinator: Coordinator,
  span: Required<KeySpan>,
  signal: AbortSignal,
): AsyncGenerator<Leader | undefined, void, undefined> {
  const backOff = new BackOff(coordinator.clock);
  let last: Leader | undefined | 'nothing yet' = 'nothing yet';
  while (!signal.aborted) {
    const candidates = await readCandidates(coordinator, span, signal);
    if (candidates === undefined) return;
    using feed = new Feed(coordinator, span, candidates);
    for await (const leader of feed.changes(signal)) {
      if (last !== 'nothing yet' && isSame(last, leader)) continue;
      last = leader;
      yield leader;
    }
    // The watch ended: read again, but never in a busy loop.
    await backOff.wait(signal).catch(() => undefined);
  }
}

function isSame(a: Leader | undefined, b: Leader | undefined): boolean {
  return a?.key === b?.key && a?.revision === b?.revision && a?.valueRevision === b?.valueRevision;
}

interface Candidates {
  readonly kvs: readonly KeyValue[];
  readonly revision: bigint;
}

/** Goes on while etcd cannot be reached or has too much to do; `undefined` when the signal aborts. */
async function readCandidates(
  coordinator: Coordinator,
  span: Required<KeySpan>,
  signal: AbortSignal,
): Promise<Candidates | undefined> {
  const backOff = new BackOff(coordinator.clock);
  while (!signal.aborted) {
    try {
      return await coordinator.range(span, { signal });
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!(error instanceof LockkeeperError && MENDABLE.has(error.code))) throw error;
    }
    await backOff.wait(signal).catch(() => undefined);
  }
  return undefined;
}

/** The candidates at one revision, kept up to date by a watch from the next one on. */
class Feed implements Disposable {
  readonly #candidates = new Map<string, KeyValue>();
  readonly #changes: (Leader | undefined)[] = [];
  readonly #clock: Clock;
  readonly #watch: Disposable;
  #ended: Error | undefined;
  #wake: () => void = () => undefined;

  constructor(coordinator: Coordinator, span: Required<KeySpan>, { kvs, revision }: Candidates) {
    this.#clock = coordinator.clock;
    for (const kv of kvs) this.#candidates.set(kv.key, kv);
    this.#changes.push(this.#leader());
    this.#watch = coordinator.watch(
      { ...span, startRevision: revision + 1n },
      {
        onEvents: (events) => this.#apply(events),
        onEnd: (error) => {
          this.#ended = error;
          this.#wake();
        },
      },
    );
  }

  /** Ends when the signal aborts, or when the watch has ended for a reason that another read can mend. */
  async *changes(signal: AbortSignal): AsyncGenerator<Leader | undefined, void, undefined> {
    while (!signal.aborted) {
      if (this.#changes.length > 0) yield this.#changes.shift();
      else if (this.#ended === undefined) await this.#somethingNew(signal);
      else if (this.#ended instanceof LockkeeperError && MENDABLE.has(this.#ended.code)) return;
      else throw this.#ended;
    }
  }

  async #somethingNew(signal: AbortSignal): Promise<void> {
    // Whoever waits for a change wants the process to live.
    using _alive = this.#clock.setTimer(FOREVER_MS, () => undefined);
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    await unlessAborted(signal, woken).catch(() => undefined);
  }

  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]();
  }

  #apply(events: readonly WatchEvent[]): void {
    let at: bigint | undefined;
    for (const event of events) {
      const revision = event.type === 'put' ? event.kv.modRevision : event.modRevision;
      // Only the state after all events of a revision is one that etcd ever had.
      if (at !== undefined && revision !== at) this.#changes.push(this.#leader());
      at = revision;
      if (event.type === 'put') this.#candidates.set(event.kv.key, event.kv);
      else this.#candidates.delete(event.key);
    }
    this.#changes.push(this.#leader());
    this.#wake();
  }

  #leader(): Leader | undefined {
    let first: KeyValue | undefined;
    for (const kv of this.#candidates.values()) {
      const isEarlier =
        first === undefined ||
        kv.createRevision < first.createRevision ||
        (kv.createRevision === first.createRevision && kv.key < first.key);
      if (isEarlier) first = kv;
    }
    return leaderOf(first);
  }
}

const MENDABLE: ReadonlySet<string> = new Set(['compacted', 'unreachable', 'limit-exceeded']);
const FOREVER_MS = Number.MAX_SAFE_INTEGER;
