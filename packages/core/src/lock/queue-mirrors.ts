import type { Coordinator } from '../coordinator/coordinator.ts';
import type { AbortSignalLike } from '../signals.ts';
import type { Acquisition, QueuePlace } from './acquisition.ts';
import { MirrorTable } from './mirror-table.ts';
import { QueueMirror, Seat, type Verdict } from './queue-mirror.ts';
import { spanOf } from './queue-view.ts';

/** The mirrors of a keeper: one for each queue in which somebody waits, for as long as somebody does. */
export class QueueMirrors {
  readonly #coordinator: Coordinator;
  readonly #mirrors = new MirrorTable<QueueMirror>();

  constructor(coordinator: Coordinator) {
    this.#coordinator = coordinator;
  }

  /**
   * Waits until the mirror shows how it ends for a key of ours that was put.
   * @throws LockkeeperError where the queue cannot be read, or the signal's reason.
   */
  wait({ session, revision }: Acquisition, place: QueuePlace, signal: AbortSignalLike): Promise<Verdict> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const { queue } = place;
    const mirror = this.#mirrors.of(
      spanOf(queue).key,
      (onOver) => new QueueMirror(this.#coordinator, queue, onOver),
    );
    return new Seat(place, session, revision, mirror, signal).wait();
  }

  /** Whoever of ours is the next as soon as the key of a place is gone, where that is known. */
  behind({ key, queue, revision }: QueuePlace): Seat | undefined {
    return revision === undefined
      ? undefined
      : this.#mirrors.get(spanOf(queue).key)?.behindFirst(key, revision);
  }
}
