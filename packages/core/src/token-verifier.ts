// Whether a token was granted is read from etcd, in one linearizable transaction: a grant stands exactly while
// the hold's own key is there, as its owner left it, and nobody that it waits for, in the token's lineage.
import {
  type FencingToken,
  type GuardCallOptions,
  GuardError,
  type TokenVerifier,
} from '@lockkeeper/fencing';
import type {
  Coordinator,
  KeySpan,
  KeyValue,
  Operation,
  OperationResult,
} from './coordinator/coordinator.ts';
import { isDowngraded, readContender } from './lock/acquisition.ts';
import { KeyLayout, keySegment } from './lock/key-layout.ts';
import { cameAs, isInTheWay, type Mode, rivalsOf, spanOf } from './lock/queue-view.ts';
import { LookupGate } from './lookup-gate.ts';
import { type LockQueue, type QueueKind, queueOf } from './operators/lock-kind.ts';
import { AbortScope, unlessAborted } from './signals.ts';
import { checkMethods, checkObject, duration, invalidOption } from './validation.ts';

/** How much a verifier may ask of etcd, whatever is presented to it. */
export interface VerifierLimits {
  /** Lookups on their way at once, 1 to 1,000. Default 4. */
  readonly maxConcurrent?: number | undefined;
  /** Lookups a second, 1 to 10,000, in the long run; a second's worth may come at once. Default 50. */
  readonly maxPerSecond?: number | undefined;
  /** How long one verification may take, waiting included, in milliseconds. Default 5,000. */
  readonly timeoutMs?: number | undefined;
}

export interface TokenVerifierOptions extends VerifierLimits {
  /** The name of the lock whose tokens are genuine. */
  readonly lock: string;
  /** Default `lock`; `readWrite` for a read/write lock. */
  readonly kind?: Exclude<QueueKind, 'election'> | undefined;
  /** The namespace of the keepers that grant it. Default `lockkeeper`. */
  readonly namespace?: string | undefined;
}

/** How long an answer "no such grant" is given again without asking etcd. */
const REFUSED_MS = 1_000;
const MAX_REFUSED = 1_000;

/**
 * Asks etcd whether a token was granted for one lock: for `verifiedGuard`, at a guard that serves others.
 *
 * A token passes while its grant stands: held and not yet released, in the lineage that etcd is in. What is
 * invented, lies in the future, belongs to another lock, is still queued, or was released or lost is
 * `unverified`. Reads only, and creates nothing.
 *
 * Of a read/write lock, a shared token passes for a reader, and for a writer, which may become a reader at any
 * moment; an exclusive one for a writer that has not.
 *
 * **Limits.** One lookup at a time per token, `maxConcurrent` in all, `maxPerSecond` a second, and a refusal is
 * remembered for a second. Beyond that callers wait, and beyond {@link VerifierLimits.timeoutMs} or 100 waiting
 * they get `retry`. So a flood of forged tokens delays genuine new holders; it neither advances a guard nor
 * overloads etcd, and tokens already in force need no lookup. While etcd cannot be reached: `unavailable`.
 *
 * That a grant stands says nothing about who presents its token: authenticate callers as well.
 *
 * @param coordinator - stays the caller's: the verifier closes nothing and keeps nothing open.
 * @throws LockkeeperError `invalid-option`
 */
export function etcdTokenVerifier(coordinator: Coordinator, options: TokenVerifierOptions): TokenVerifier {
  checkMethods('coordinator', coordinator, ['txn']);
  checkObject('options', options);
  const layout = new KeyLayout(options.namespace ?? 'lockkeeper');
  keySegment('lock', options.lock);
  const { kind = 'lock' } = options;
  if (kind !== 'lock' && kind !== 'readWrite')
    throw invalidOption('kind', kind, 'expected "lock" or "readWrite"');
  const verifier = new Verifier(coordinator, layout.lineage, queueOf(layout, kind, options.lock), options);
  return (token, call) => verifier.verify(token, call);
}

class Verifier {
  readonly #coordinator: Coordinator;
  readonly #lock: string;
  readonly #lineageKey: string;
  readonly #queue: LockQueue;
  readonly #timeoutMs: number;
  readonly #gate: LookupGate;
  /** By the token's text. A lookup serves everybody who asks while it is under way. */
  readonly #lookups = new Map<string, Promise<void>>();
  readonly #refused = new Map<string, { readonly until: number; readonly why: string }>();

  constructor(coordinator: Coordinator, lineageKey: string, queue: LockQueue, limits: VerifierLimits) {
    this.#coordinator = coordinator;
    this.#lock = queue.name;
    this.#queue = queue;
    this.#lineageKey = lineageKey;
    this.#timeoutMs = duration('timeoutMs', limits.timeoutMs ?? 5_000, { min: 1 });
    const maxConcurrent = whole('maxConcurrent', limits.maxConcurrent ?? 4, 1_000);
    const maxPerSecond = whole('maxPerSecond', limits.maxPerSecond ?? 50, 10_000);
    this.#gate = new LookupGate(coordinator.clock, maxConcurrent, maxPerSecond);
  }

  async verify(token: FencingToken, { signal }: GuardCallOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    const text = `${token}`;
    const refused = this.#refused.get(text);
    if (refused !== undefined && this.#coordinator.clock.now() < refused.until) {
      throw this.#unverified(token, refused.why);
    }
    const lookup = this.#lookups.get(text) ?? this.#begin(text, token);
    await (signal === undefined ? lookup : unlessAborted(signal, lookup));
  }

  #begin(text: string, token: FencingToken): Promise<void> {
    const lookup = this.#lookUp(token).finally(() => this.#lookups.delete(text));
    // Whoever began it may have stopped waiting; the others have promises of their own.
    lookup.catch(() => undefined);
    this.#lookups.set(text, lookup);
    return lookup;
  }

  async #lookUp(token: FencingToken): Promise<void> {
    const { clock } = this.#coordinator;
    using scope = new AbortScope();
    const late = () => this.#busy(token, `not its turn within timeoutMs ${this.#timeoutMs}`);
    const begun = clock.now();
    const limit = scope.limit(clock, this.#timeoutMs, late);
    const leave = await this.#gate.enter(scope.signal, () => this.#busy(token, 'too many tokens at once'));
    limit.cancel();
    let why: string | undefined;
    try {
      const leftMs = Math.max(1, this.#timeoutMs - (clock.now() - begun));
      why = await this.#whyNot(token, leftMs);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      const what = `lock "${this.#lock}": token ${token} could not be verified: ${message}`;
      throw new GuardError('unavailable', what, { cause, token });
    } finally {
      leave();
    }
    if (why === undefined) return;
    this.#remember(`${token}`, why);
    throw this.#unverified(token, why);
  }

  /** @returns what keeps the token from being in force; `undefined` where nothing does. */
  async #whyNot(token: FencingToken, timeoutMs: number): Promise<string | undefined> {
    const lastOf = (keys: Required<KeySpan>, upTo: bigint): Operation => {
      const sort = { by: 'createRevision', order: 'descend' } as const;
      return { op: 'range', ...keys, maxCreateRevision: upTo, sort, limit: 1 };
    };
    const success = [
      { op: 'range', key: this.#lineageKey } as const,
      lastOf(spanOf(this.#queue), token.revision),
      lastOf(rivalsOf(this.#queue, 'write'), token.revision - 1n),
      lastOf(rivalsOf(this.#queue, 'read'), token.revision - 1n),
    ];
    const request = { compare: [], success, failure: [] };
    const { revision, results } = await this.#coordinator.txn(request, { timeoutMs });
    const [lineage, own, beforeWriter, beforeReader] = results.map(lastKey);
    if (lineage === undefined || new TextDecoder().decode(lineage.value) !== token.lineage)
      return 'etcd is in another lineage';
    if (token.revision > revision) return `etcd is only at revision ${revision}`;
    if (own === undefined || !isGrantOf(own, token))
      return 'no such grant stands (never made for this lock, released, or lost)';
    const mode = cameAs(this.#queue, own.key);
    const before = mode === 'read' ? beforeReader : beforeWriter;
    if (before !== undefined && isInTheWay(before, mode)) return 'it is still queued';
    return whyNotInMode(token, mode, isDowngraded(own));
  }

  #remember(text: string, why: string): void {
    this.#refused.delete(text);
    // In the order of their ends, which is the order of insertion.
    for (const oldest of this.#refused.keys()) {
      if (this.#refused.size < MAX_REFUSED) break;
      this.#refused.delete(oldest);
    }
    this.#refused.set(text, { until: this.#coordinator.clock.now() + REFUSED_MS, why });
  }

  #unverified(token: FencingToken, why: string): GuardError {
    const what = `lock "${this.#lock}": token ${token} is not in force: ${why}`;
    return new GuardError('unverified', what, { token });
  }

  #busy(token: FencingToken, why: string): GuardError {
    return new GuardError('retry', `lock "${this.#lock}": token ${token} was not verified: ${why}`, {
      token,
    });
  }
}

function lastKey(result: OperationResult): KeyValue | undefined {
  return result.op === 'range' ? result.kvs[0] : undefined;
}

/** The key that our keepers write for a hold, as its owner left it, still on its lease. */
function isGrantOf(kv: KeyValue, token: FencingToken): boolean {
  const [lease] = kv.key.slice(kv.key.lastIndexOf('/') + 1).split('.');
  return (
    kv.createRevision === token.revision &&
    (kv.modRevision === token.revision || isDowngraded(kv)) &&
    kv.lease !== 0n &&
    lease === kv.lease.toString(16) &&
    readContender(kv).acquisition === token.acquisition
  );
}

function whyNotInMode(
  { shared }: FencingToken,
  mode: Mode | undefined,
  becameReader: boolean,
): string | undefined {
  if (shared) return mode === undefined ? "the grant is not a reader's" : undefined;
  return mode === 'read' || becameReader ? "the grant is a reader's" : undefined;
}

function whole(field: string, value: unknown, max: number): number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max) return value as number;
  throw invalidOption(field, value, `expected a whole number from 1 to ${max}`);
}
