import { LockkeeperError } from '../errors.ts';
import { publish } from '../telemetry.ts';
import type {
  CallOptions,
  Coordinator,
  GrantReply,
  RangeReply,
  RangeRequest,
  Txn,
  TxnReply,
} from './coordinator.ts';

/**
 * Passes everything on and keeps watch over the revisions in the replies. A linearizable reply can never
 * carry an older revision than one that had arrived before its request was sent, unless the history itself
 * went back: data wiped, or restored from a backup. (The comparison is with what was known at the sending;
 * replies of concurrent requests do arrive out of order.)
 *
 * A suspicion is confirmed by one more read before anything that rests on the reply goes on.
 */
export class HistoryWatch implements Coordinator {
  readonly #inner: Coordinator;
  readonly #key: string;
  readonly #onRegression: () => void;
  #highest = 0n;

  /** `key` is read for the confirmation; which one does not matter, but we must have the right to read it. */
  constructor(inner: Coordinator, key: string, onRegression: () => void) {
    this.#inner = inner;
    this.#key = key;
    this.#onRegression = onRegression;
  }

  get clock(): Coordinator['clock'] {
    return this.#inner.clock;
  }

  readonly endpoints: Coordinator['endpoints'] = () => this.#inner.endpoints();
  readonly describe: Coordinator['describe'] = (options) => this.#inner.describe(options);
  readonly renew: Coordinator['renew'] = (lease, options) => this.#inner.renew(lease, options);
  readonly timeToLive: Coordinator['timeToLive'] = (lease, options) => this.#inner.timeToLive(lease, options);
  readonly revoke: Coordinator['revoke'] = (lease, options) => this.#inner.revoke(lease, options);
  readonly watch: Coordinator['watch'] = (request, handler) => this.#inner.watch(request, handler);

  grant(request: Parameters<Coordinator['grant']>[0], options?: CallOptions): Promise<GrantReply> {
    return this.#watched(this.#inner.grant(request, options));
  }

  txn(txn: Txn, options?: CallOptions): Promise<TxnReply> {
    return this.#watched(this.#inner.txn(txn, options));
  }

  range(range: RangeRequest, options?: CallOptions): Promise<RangeReply> {
    return this.#watched(this.#inner.range(range, options));
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #watched<Reply extends { readonly revision: bigint }>(sent: Promise<Reply>): Promise<Reply> {
    const seenBefore = this.#highest;
    const reply = await sent;
    if (reply.revision < seenBefore) await this.#confirm(seenBefore);
    else if (reply.revision > this.#highest) this.#highest = reply.revision;
    return reply;
  }

  async #confirm(seen: bigint): Promise<void> {
    const revision = await this.#readRevision();
    // Somebody else may have confirmed the same regression meanwhile.
    if (revision >= seen || this.#highest < seen) return;
    this.#highest = revision;
    publish('lockkeeper:history:regressed', () => ({ seen, found: revision }));
    this.#onRegression();
  }

  /** Whatever keeps this read from an answer, the request whose reply raised the suspicion was carried out. */
  async #readRevision(): Promise<bigint> {
    try {
      return (await this.#inner.range({ key: this.#key })).revision;
    } catch (cause) {
      const why = 'etcd answered with an older revision than before, and cannot be asked again';
      throw new LockkeeperError('unreachable', why, { cause, outcome: 'unknown' });
    }
  }
}
