import type { CallOptions, TxnReply } from '../coordinator/coordinator.ts';
import { untilReached } from '../lock/back-off.ts';
import { Hold } from '../lock/hold.ts';
import { AbortScope, type AbortSignalLike } from '../signals.ts';
import { checkCall, invalidOption } from '../validation.ts';

/**
 * One term of office: a hold on an election, whose key carries a value that others observe. Its token is the
 * revision at which the candidate entered, and stays the same however often the value is rewritten.
 */
export class Term extends Hold {
  /** When the value was written last, as far as we know. */
  #writtenAt = this.token.revision;
  #tail: Promise<unknown> = Promise.resolve();

  /**
   * Rewrites the value that others observe. Calls are carried out one after another; one is repeated until its
   * outcome is known, and takes effect once.
   * @throws {@link LockkeeperError} `invalid-option`, `lost` (nothing was written from then on), `released`, `permission-denied`,
   * `storage-full`, `closed`; or `signal.reason`, after which it may still take effect.
   */
  async proclaim(value: string, options: Pick<CallOptions, 'signal'> = {}): Promise<void> {
    const checked = checkValue(value);
    const { signal } = checkCall(options);
    const turn = this.#tail.then(() => this.#proclaim(checked, signal));
    this.#tail = turn.catch(() => undefined);
    return turn;
  }

  /** Gives the office up, like `release()`: the next in line leads. */
  resign(): ReturnType<Hold['release']> {
    return this.release();
  }

  async #proclaim(value: string, signal: AbortSignalLike | undefined): Promise<void> {
    return this.whileHeld(() => this.#writeUntilKnown(value, signal));
  }

  async #writeUntilKnown(value: string, signal: AbortSignalLike | undefined): Promise<void> {
    const { coordinator, acquisition, spoilt } = this.fence();
    using scope = new AbortScope().follow(signal).follow(acquisition.scope.signal);
    const timeoutMs = acquisition.session.attemptTimeoutMs;
    for (;;) {
      scope.signal.throwIfAborted();
      const reply = await untilReached(coordinator.clock, scope.signal, () =>
        coordinator.txn(this.#rewrite(value), { signal: scope.signal, timeoutMs }),
      );
      const why = reply.succeeded ? this.#written(reply.revision) : this.#whyRefused(reply, value);
      if (why === 'written') return;
      if (why !== 'again') throw await spoilt(why);
    }
  }

  /** Throws once the term is lost or released, which bounds the repeats. */
  #rewrite(value: string) {
    const { acquisition } = this.fence();
    const [{ key = '' } = {}] = acquisition.places;
    return {
      compare: [...this.compare(), { key, target: 'modRevision', is: '=', to: this.#writtenAt } as const],
      success: [{ op: 'put', key, value, lease: acquisition.session.lease } as const],
      failure: [key, acquisition.lineageKey].map((each) => ({ op: 'range', key: each }) as const),
    };
  }

  #written(revision: bigint): 'written' {
    this.#writtenAt = revision;
    return 'written';
  }

  /** An earlier copy whose reply was lost may have been applied. */
  #whyRefused({ results }: TxnReply, value: string) {
    const { acquisition } = this.fence();
    const [own, lineage] = results.map((result) => (result.op === 'range' ? result.kvs[0] : undefined));
    if (!acquisition.isInHistory(lineage)) return 'history-regressed';
    if (own === undefined) return 'key-deleted';
    const [place] = acquisition.places;
    if (place === undefined || !acquisition.isIntact(place, own)) return 'foreign-write';
    this.#writtenAt = own.modRevision;
    return new TextDecoder().decode(own.value) === value ? 'written' : 'again';
  }
}

/** @throws LockkeeperError `invalid-option` */
export function checkValue(value: unknown): string {
  if (typeof value === 'string') return value;
  throw invalidOption('value', value, 'expected a string');
}
