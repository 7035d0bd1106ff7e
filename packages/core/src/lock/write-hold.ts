import { downgraded } from './acquisition.ts';
import { untilReached } from './back-off.ts';
import { Hold } from './hold.ts';

/** The hold of a writer, which may go on as a reader without leaving its place. */
export class WriteHold extends Hold {
  #downgrading: Promise<void> | undefined;

  /**
   * From now on this hold is a reader's: the readers behind it come in, and no writer that waits gets in between.
   * Lease and release stay as they are. There is no way back: upgrading would deadlock two readers who both try.
   *
   * `token` is the shared one from the call on, of the same revision. The guards that promised at the grant promise it
   * anew before any reader comes in, so that they refuse what was sent with the exclusive token and arrives late.
   *
   * Idempotent. Where it rejects the hold may still be a writer's for those who wait, and a guard may refuse its
   * exclusive token already: call it again, or release.
   * @throws {@link LockkeeperError} `lost`, `released`, `claim-timeout`, `claim-failed`, `permission-denied`,
   * `storage-full`, `closed`.
   */
  downgrade(): Promise<void> {
    this.#downgrading ??= this.whileHeld(() => this.#downgrade()).catch((error: unknown) => {
      this.#downgrading = undefined;
      throw error;
    });
    return this.#downgrading;
  }

  async #downgrade(): Promise<void> {
    this.fence();
    await this.claimShared();
    await this.#letReadersIn();
  }

  /** The same value again does no harm, so it is repeated until it is confirmed. */
  async #letReadersIn(): Promise<void> {
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
