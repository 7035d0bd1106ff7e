import type { Coordinator } from '../coordinator/coordinator.ts';
import type { AbortSignalLike } from '../signals.ts';
import type { Acquisition, QueuePlace } from './acquisition.ts';
import { QueueMirror, Seat, type Verdict } from './queue-mirror.ts';
import { spanOf } from './queue-view.ts';

/** The mirrors of a keeper: one for each queue in which somebody waits, for as long as somebody does. */
export class QueueMirrors {
  readonly #coordinator: Coordinator;
  readonly #mirrors = new Map<string, QueueMirror>();

  constructor(coordinator: Coordinator) {
    this.#coordinator = coordinator;
  }

  /**
   * Waits until the mirror shows how it ends for a key that was put at `token`.
   * @throws LockkeeperError where the queue cannot be read, or the signal's reason.
   */
  wait(
    { session }: Acquisition,
    place: QueuePlace,
    token: bigint,
    signal: AbortSignalLike,
  ): Promise<Verdict> {
    if (signal.aborted) return Promise.reject(signal.reason);
    return new Seat(place, session, token, this.#mirrorOf(place), signal).wait();
  }

  /** Whoever of ours is the next as soon as the key of a place is gone, where that is known. */
  behind(place: QueuePlace): Seat | undefined {
    const { key, revision } = place;
    return revision === undefined
      ? undefined
      : this.#mirrors.get(spanOf(place).key)?.behindFirst(key, revision);
  }

  #mirrorOf(place: QueuePlace): QueueMirror {
    const { key } = spanOf(place);
    const standing = this.#mirrors.get(key);
    if (standing !== undefined) return standing;
    const mirror = new QueueMirror(this.#coordinator, place, () => this.#mirrors.delete(key));
    this.#mirrors.set(key, mirror);
    return mirror;
  }
}
