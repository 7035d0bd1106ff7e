import {
  type CallOptions,
  type Compare,
  type Coordinator,
  type KeySpan,
  type Operation,
  type OperationResult,
  prefixSpan,
  type RangeRequest,
  type RangeResult,
} from './coordinator/coordinator.ts';
import { LockkeeperError } from './errors.ts';
import type { Acquisition } from './lock/acquisition.ts';
import type { Hold, SpoilCause } from './lock/hold.ts';
import { folderOf } from './lock/key-layout.ts';
import { checkCall, checkMethods, invalidOption } from './validation.ts';

/** `applied: false`: a condition of your own did not hold; the lock was still yours, and nothing was written. */
export type FencedTxnReply =
  | {
      readonly applied: true;
      /** The ModRevision of every key that was put. */
      readonly revision: bigint;
      /** One for each operation, in the order in which they were added. */
      readonly results: readonly OperationResult[];
    }
  | { readonly applied: false };

/**
 * Writes inside etcd that take effect only while `hold` stands: one transaction whose comparisons are
 * {@link Hold.compare} and your own conditions. etcd checks holder, lease and generation together with the write,
 * so no guard state is needed, and a holder that was paused past its lease is refused however late it wakes.
 *
 * ```ts
 * await fencedTxn(hold).put('app/leader', name).put('app/since', now).commit();
 * ```
 *
 * @throws {@link LockkeeperError} `invalid-option`
 */
export function fencedTxn(hold: Hold): FencedTxn {
  checkMethods('hold', hold, ['compare', 'fence']);
  return new FencedTxn(hold);
}

const TARGETS: readonly Compare['target'][] = ['createRevision', 'modRevision', 'version', 'lease', 'value'];

/** A transaction being written down. Nothing is sent before `commit()`, which may be called once. */
export class FencedTxn {
  readonly #hold: Hold;
  readonly #conditions: Compare[] = [];
  readonly #operations: Operation[] = [];
  #committed = false;

  /** @internal */
  constructor(hold: Hold) {
    this.#hold = hold;
  }

  /** A condition besides the hold; all of them must be true. */
  when(condition: Compare): this {
    const target = condition?.target;
    if (!TARGETS.includes(target)) throw invalidOption('target', target, `expected ${TARGETS.join(', ')}`);
    this.#conditions.push(condition);
    return this;
  }

  /** Writes one key, under `lease` where one is given: it goes with that lease, not with the hold. */
  put(key: string, value: string | Uint8Array, options: { readonly lease?: bigint } = {}): this {
    return this.#add({ op: 'put', key, value, lease: options.lease });
  }

  /** One key, or a span of them; none that the lock itself stands on. etcd refuses two writes of one key in a transaction. */
  delete(span: string | KeySpan): this {
    return this.#add({ op: 'delete', ...(typeof span === 'string' ? { key: span } : span) });
  }

  /** Reads in the same step: what the operations before it have left. */
  range(range: string | RangeRequest): this {
    return this.#add({ op: 'range', ...(typeof range === 'string' ? { key: range } : range) });
  }

  /**
   * Sends it, once. There is no repeat behind your back: after `unreachable`, whose `outcome` is `unknown`, look at
   * what you wrote.
   *
   * A hold that is only suspect may commit: etcd knows better than its clock.
   *
   * @throws {@link LockkeeperError} `lost` where the hold does not stand any more (nothing was written, and the
   * hold knows it from then on), `released`, `unreachable`, `permission-denied`, `invalid-request`,
   * `limit-exceeded`, `storage-full`, `closed`; or `signal.reason`, after which it may still be applied.
   */
  async commit(options: CallOptions = {}): Promise<FencedTxnReply> {
    if (this.#committed)
      throw new LockkeeperError('invalid-option', 'commit: this transaction was sent before');
    if (this.#operations.length === 0)
      throw new LockkeeperError('invalid-option', 'commit: the transaction has no operation');
    const call = checkCall(options);
    const hold = this.#hold;
    const { coordinator, acquisition, spoilt } = hold.fence();
    this.#committed = true;
    const reply = await coordinator.txn(
      {
        compare: [...hold.compare(), ...this.#conditions],
        success: this.#operations,
        failure: [],
      },
      call,
    );
    if (reply.succeeded) return { applied: true, revision: reply.revision, results: reply.results };
    const why = await whyRefused(coordinator, acquisition, call);
    if (why === 'condition') return { applied: false };
    throw await spoilt(why);
  }

  #add(operation: Operation & { readonly key: string }): this {
    const { key } = operation;
    if (typeof key !== 'string' || key === '') throw invalidOption('key', key, 'expected a non-empty string');
    const whose = operation.op === 'range' ? undefined : this.#ownerOf(operation);
    if (whose !== undefined) throw invalidOption('key', key, `it is, or the span touches, ${whose}`);
    this.#operations.push(operation);
    return this;
  }

  /** What must not be written here, since the hold stands on it. */
  #ownerOf(span: KeySpan): string | undefined {
    const { places, lineageKey } = this.#hold.fence().acquisition;
    if (places.some(({ key }) => overlap(span, prefixSpan(folderOf(key)))))
      return 'part of the queue of the lock itself';
    return overlap(span, { key: lineageKey }) ? 'the lineage of all locks' : undefined;
  }
}

/** As the end of a span: every key from its beginning on. */
const ALL_KEYS_FROM = '\0';

function overlap(a: KeySpan, b: KeySpan): boolean {
  const startsBefore = (one: KeySpan, other: KeySpan) =>
    other.rangeEnd === ALL_KEYS_FROM || Buffer.compare(Buffer.from(one.key), endOf(other)) < 0;
  return startsBefore(a, b) && startsBefore(b, a);
}

function endOf({ key, rangeEnd = `${key}\0` }: KeySpan): Buffer {
  return Buffer.from(rangeEnd);
}

/**
 * Asked only after a refusal, so that what is applied costs no more than it must. A hold that stands now stood then:
 * its keys never come back.
 */
async function whyRefused(
  coordinator: Coordinator,
  acquisition: Acquisition,
  options: CallOptions,
): Promise<'condition' | SpoilCause | 'history-regressed'> {
  const keys = [...acquisition.places.map(({ key }) => key), acquisition.lineageKey];
  const found = (await readAll(coordinator, keys, options)).map(({ kvs }) => kvs[0]);
  if (!acquisition.isInHistory(found.pop())) return 'history-regressed';
  if (found.includes(undefined)) return 'key-deleted';
  const intact = acquisition.places.every((place, index) => {
    const own = found[index];
    return own !== undefined && acquisition.isIntact(place, own);
  });
  return intact ? 'condition' : 'foreign-write';
}

async function readAll(
  coordinator: Coordinator,
  keys: readonly string[],
  options: CallOptions,
): Promise<readonly RangeResult[]> {
  const success = keys.map((key): Operation => ({ op: 'range', key }));
  try {
    const { results } = await coordinator.txn({ compare: [], success, failure: [] }, options);
    return results.filter((result) => result.op === 'range');
  } catch (cause) {
    if (!(cause instanceof LockkeeperError && cause.code === 'unreachable')) throw cause;
    const why = 'the transaction was refused, and etcd could not be asked which comparison failed';
    throw new LockkeeperError('unreachable', why, { cause, outcome: 'rejected' });
  }
}
