import { downgraded } from './acquisition.ts';
import { untilReached } from './back-off.ts';
import { Hold } from './hold.ts';

/** The hold of a writer, which may go on as a reader without leaving its place. */
export class WriteHold extends Hold {
  #downgrading: Promise<void> | undefined;

  /**
   * From now on this hold is a reader's: the readers behind it come in, and no writer that waits gets in between.
   * Token, lease and release stay as they are. There is no way back: upgrading would deadlock two readers who both try.
   * Idempotent.
   * @throws {@link LockkeeperError} `lost`, `released`, `permission-denied`, `storage-full`, `closed`.
   */
  downgrade(): Promise<void> {
    this.#downgrading ??= this.whileHeld(() => this.#downgrade());
    return this.#downgrading;
  }

  /** The same value again does no harm, so it is repeated until it is confirmed. */
  async #downgrade(): Promise<void> {
    const { coordinator, acquisition, spoilt } = this.fence();
    const [{ key = '' } = {}] = acquisition.places;
    const { session, details, scope } = acquisition;
    const rewrite = {
      compare: this.compare(),
      success: [{ op: 'put', key, value: downgraded(details), lease: session.lease } as const],
      failure: [{ op: 'range', key: acquisition.lineageKey } as const],
    };
    const reply = await untilReached(coordinator.clock, scope.signal, () => {
      // Throws once the hold is lost or released.
      this.fence();
      return coordinator.txn(rewrite, { signal: scope.signal, timeoutMs: session.attemptTimeoutMs });
    });
    if (reply.succeeded) return;
    const [lineage] = reply.results;
    const isSame = acquisition.isInHistory(lineage?.op === 'range' ? lineage.kvs[0] : undefined);
    throw await spoilt(isSame ? 'key-deleted' : 'history-regressed');
  }
}
