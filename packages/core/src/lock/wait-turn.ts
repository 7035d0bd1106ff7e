import { type Clock, sleep } from '../clock.ts';
import type { Coordinator, Watch } from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import { AbortScope } from '../signals.ts';
import type { Acquisition } from './acquisition.ts';
import { BackOff } from './back-off.ts';

/** A safety net under the watches: without any event the queue is read again this often. */
const POLL_MS = 15_000;

/** Where we stand in the queue at the revision of a read. */
type Turn =
  | { readonly turn: 'ours' }
  | { readonly turn: 'not-yet'; readonly behind: string; readonly revision: bigint };

/**
 * Resolves when our key is the first of its queue, intact. Events only say when to look; what they mean is
 * decided by a linearizable read, because a predecessor that leaves may just have given up, and our own key
 * may have gone in the meantime.
 *
 * @param behind - the predecessor, where the enqueue told.
 * @throws LockkeeperError `lost-while-waiting` as soon as our key or lease is gone, or the signal's reason.
 */
export async function waitTurn(
  coordinator: Coordinator,
  acquisition: Acquisition,
  revision: bigint,
  behind: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const wake = new WakeUp();
  const backOff = new BackOff(coordinator.clock);
  let startRevision = revision + 1n;
  let predecessor = behind;
  for (;;) {
    if (predecessor !== undefined) {
      await somethingHappened(coordinator, acquisition, predecessor, startRevision, wake, signal);
      // A watch that ends at once, again and again, must not become a busy loop.
      if (wake.watchEnded) await backOff.wait(signal);
    }
    const turn = await decide(coordinator, acquisition, revision, signal);
    if (turn.turn === 'ours') return;
    predecessor = turn.behind;
    startRevision = turn.revision + 1n;
  }
}

/** Waits until something happened to the predecessor's key or to our own, or until it is time to look anyway. */
async function somethingHappened(
  coordinator: Coordinator,
  acquisition: Acquisition,
  predecessor: string,
  startRevision: bigint,
  wake: WakeUp,
  signal: AbortSignal,
): Promise<void> {
  wake.watchEnded = false;
  using _own = watchKey(coordinator, acquisition.key, startRevision, wake);
  using _predecessor = watchKey(coordinator, predecessor, startRevision, wake);
  await wake.next(coordinator.clock, signal);
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

/**
 * The deciding read: of the keys that were created no later than ours, the last two. Repeated while etcd
 * cannot be reached: the session's deadline, which aborts the signal, bounds that.
 */
async function decide(
  coordinator: Coordinator,
  acquisition: Acquisition,
  token: bigint,
  signal: AbortSignal,
): Promise<Turn> {
  const backOff = new BackOff(coordinator.clock);
  for (;;) {
    try {
      const { kvs, revision } = await coordinator.range(
        {
          ...acquisition.queue,
          maxCreateRevision: token,
          sort: { by: 'createRevision', order: 'descend' },
          limit: 2,
          keysOnly: true,
        },
        { signal },
      );
      const [own, other] = kvs;
      if (own?.key !== acquisition.key || own.createRevision !== token) {
        // It may have gone with the lease; a renewal tells.
        await acquisition.session.renewNow();
        throw acquisition.lostWhileWaiting(acquisition.session.lossCause ?? 'key-deleted');
      }
      if (own.modRevision !== token) throw acquisition.lostWhileWaiting('foreign-write');
      return other === undefined ? { turn: 'ours' } : { turn: 'not-yet', behind: other.key, revision };
    } catch (error) {
      if (!(error instanceof LockkeeperError && error.code === 'unreachable')) throw error;
      await backOff.wait(signal);
    }
  }
}

/** A bell that stays rung until somebody listens. */
class WakeUp {
  /** Whether a watch that rang had ended, so that its events may be incomplete. */
  watchEnded = false;
  #rung = false;
  #listener: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#listener?.();
  }

  async next(clock: Clock, signal: AbortSignal): Promise<void> {
    if (!this.#rung) {
      using scope = new AbortScope().follow(signal);
      this.#listener = () => scope.abort(undefined);
      await sleep(clock, POLL_MS, { signal: scope.signal }).catch(() => undefined);
      this.#listener = undefined;
      signal.throwIfAborted();
    }
    this.#rung = false;
  }
}
