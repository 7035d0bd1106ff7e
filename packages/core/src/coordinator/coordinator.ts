import type { Clock } from '../clock.ts';
import type { AbortSignalLike } from '../signals.ts';

/**
 * The port to the coordination service: the handful of etcd's verbs that the protocol rests on. Two
 * implementations, etcd and memory, pass one contract suite.
 *
 * Every call rejects with a `LockkeeperError` whose `outcome` says whether the request was certainly not
 * applied (`rejected`) or may have been, now or later (`unknown`). No call is retried once it may have
 * been applied: that is for the caller, who knows what makes it idempotent. No call outlives its
 * `timeoutMs`, whatever the network does.
 */
export interface Coordinator extends AsyncDisposable {
  /** The clock that timers and deadlines above this port must use. */
  readonly clock: Clock;

  /** What stands behind the port, with its version: `etcd 3.5.30`, `memory`. */
  describe(options?: CallOptions): Promise<string>;

  /** What is known of the members behind the port. Asks nobody. */
  endpoints(): readonly EndpointHealth[];

  /**
   * Creates a lease under an id that the caller drew at random, so that a grant whose reply was lost can
   * be revoked by name. The server may grant a longer TTL than asked; the granted one counts.
   */
  grant(request: GrantRequest, options?: CallOptions): Promise<GrantReply>;

  /** Renews a lease. `ttlMs` 0: the server does not know it (any more). */
  renew(lease: bigint, options?: CallOptions): Promise<{ readonly ttlMs: number }>;

  /**
   * How long a lease lives on unless it is renewed; `undefined`: the server does not know it (any more). For
   * eyes, it decides nothing: the answer is the leader's own count, read without quorum. A leader that was cut
   * off counts on for a second or two, a new one gives every lease its full time again. A member that knows of
   * no leader rejects with `unreachable`.
   */
  timeToLive(lease: bigint, options?: CallOptions): Promise<LeaseTime | undefined>;

  /** Ends a lease and deletes its keys. Rejects with `lease-not-found` where there is none. */
  revoke(lease: bigint, options?: CallOptions): Promise<void>;

  /**
   * One atomic transaction. All compares see the state before it; all its puts share one revision. Bytes are copied; the
   * rest is to be left as it is until the call has settled.
   */
  txn(txn: Txn, options?: CallOptions): Promise<TxnReply>;

  /** A linearizable read. */
  range(range: RangeRequest, options?: CallOptions): Promise<RangeReply>;

  /**
   * Watches from `startRevision` on, over reconnects and member failures, without losing an event. Events
   * arrive in order and never cut inside a revision. What cannot be continued (history compacted, rights
   * withdrawn, coordinator closed) ends it through `onEnd`, once; after that, or after `close()`, nothing
   * more is called.
   */
  watch(request: WatchRequest, handler: WatchHandler): Watch;

  /** Ends everything: pending calls reject with `closed`, no timer, stream or socket is left. Idempotent. */
  close(): Promise<void>;
}

export interface EndpointHealth {
  /** `http://127.0.0.1:2379`, `memory`. */
  readonly name: string;
  /** Whether a connection stands. One that nobody has needed yet does not; a broken one may not show at once. */
  readonly connected: boolean;
  /** Whether it is the one that calls go to at present. */
  readonly current: boolean;
}

export interface CallOptions {
  /** Default 5,000. */
  readonly timeoutMs?: number | undefined;
  /** Stops the waiting, with the signal's reason; what was sent may still be applied. */
  readonly signal?: AbortSignalLike | undefined;
  /**
   * Called before the call fails, whatever for, if it is certain that nothing was sent which may still take effect. A
   * coordinator that does not know need not call it.
   */
  readonly onUnsent?: (() => void) | undefined;
}

export const DEFAULT_CALL_TIMEOUT_MS = 5_000;

export interface GrantRequest {
  /** 1 to 2^63 − 1. */
  readonly lease: bigint;
  /** Asked for; etcd counts whole seconds, so this is rounded up to them. */
  readonly ttlMs: number;
}

export interface GrantReply {
  /** Granted. */
  readonly ttlMs: number;
  /** Of the store, when the grant was applied. */
  readonly revision: bigint;
}

export interface LeaseTime {
  /** Left. etcd tells whole seconds, rounded down; 0: due to expire, its keys still there. */
  readonly ttlMs: number;
  readonly grantedTtlMs: number;
}

export interface KeyValue {
  readonly key: string;
  /** Empty where the range asked for keys only. */
  readonly value: Uint8Array;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  /** How often the key was put since it was created. */
  readonly version: bigint;
  /** 0n: none. */
  readonly lease: bigint;
}

/**
 * A single key, or with `rangeEnd` all keys from `key` (included) to `rangeEnd` (excluded), in byte order; a
 * `rangeEnd` of `"\0"` means all keys from `key` on.
 */
export interface KeySpan {
  readonly key: string;
  readonly rangeEnd?: string | undefined;
}

export type CompareOperator = '=' | '!=' | '<' | '>';

/**
 * A condition of a transaction. With `rangeEnd` it must hold for every key of the span; an empty span
 * compares like one absent key, so `createRevision = 0` over a prefix is true exactly if the prefix is empty.
 * An absent key has createRevision, modRevision, version and lease 0; on its value every compare is false.
 */
export type Compare = KeySpan &
  (
    | {
        readonly target: 'createRevision' | 'modRevision' | 'version' | 'lease';
        readonly is: CompareOperator;
        readonly to: bigint;
      }
    | { readonly target: 'value'; readonly is: CompareOperator; readonly to: string | Uint8Array }
  );

export interface RangeRequest extends KeySpan {
  /** Default: no limit. */
  readonly limit?: number | undefined;
  readonly sort?: {
    readonly by: 'key' | 'createRevision' | 'modRevision';
    readonly order: 'ascend' | 'descend';
  };
  readonly keysOnly?: boolean | undefined;
  /** Only keys created at this revision or before. */
  readonly maxCreateRevision?: bigint | undefined;
}

export type Operation =
  | ({ readonly op: 'range' } & RangeRequest)
  | {
      readonly op: 'put';
      readonly key: string;
      readonly value: string | Uint8Array;
      /** 0n or absent: none, which detaches the key from a lease it had. */
      readonly lease?: bigint | undefined;
    }
  | ({ readonly op: 'delete' } & KeySpan)
  | ({ readonly op: 'txn' } & Txn);

export interface Txn {
  /** Empty: always true. */
  readonly compare: readonly Compare[];
  readonly success: readonly Operation[];
  readonly failure: readonly Operation[];
  /**
   * Whatever else is written in these spans gets a revision of its own, also where transactions are joined: for those
   * who are told apart by their revision although they do not look at each other. Changes nothing else.
   */
  readonly apartIn?: readonly KeySpan[] | undefined;
}

export type OperationResult =
  | ({ readonly op: 'range' } & RangeResult)
  | { readonly op: 'put' }
  | { readonly op: 'delete'; readonly deleted: number }
  | ({ readonly op: 'txn' } & TxnResult);

export interface RangeResult {
  readonly kvs: readonly KeyValue[];
  /** How many keys the span holds, whatever the limit. */
  readonly count: number;
}

export interface TxnResult {
  readonly succeeded: boolean;
  /** One result for each operation of the branch that ran, in order. */
  readonly results: readonly OperationResult[];
}

export interface RangeReply extends RangeResult {
  /** Of the store, when the read was served. */
  readonly revision: bigint;
}

export interface TxnReply extends TxnResult {
  /** Of the store after the transaction: the ModRevision of every key it put. */
  readonly revision: bigint;
}

export interface WatchRequest extends KeySpan {
  /** The first revision whose events are wanted; may lie in the future. At least 1. */
  readonly startRevision: bigint;
}

export type WatchEvent =
  | { readonly type: 'put'; readonly kv: KeyValue }
  | { readonly type: 'delete'; readonly key: string; readonly modRevision: bigint };

export interface WatchHandler {
  /** Called with the events of one or more whole revisions. */
  onEvents(events: readonly WatchEvent[]): void;
  /**
   * What follows comes from another stream, perhaps of another member. Nothing is missed, unless the store was restored to
   * an earlier state in between.
   */
  onResumed?(): void;
  /** The watch is over and events may have been missed: read again. */
  onEnd(error: Error): void;
}

/** A running watch. `close()` is idempotent; nothing is called after it. */
export interface Watch extends Disposable {
  close(): void;
}

/** All keys that begin with `prefix`, which must not be empty. */
export function prefixSpan(prefix: string): Required<KeySpan> {
  // Our prefixes end in "/", whose successor is "0"; a last character below U+007F is ASCII in UTF-8.
  const last = prefix.charCodeAt(prefix.length - 1);
  if (!(last < 0x7f)) throw new RangeError(`prefix ${JSON.stringify(prefix)} must end in an ASCII character`);
  return { key: prefix, rangeEnd: prefix.slice(0, -1) + String.fromCharCode(last + 1) };
}
