import type { Clock } from '../../clock.ts';
import { LockkeeperError } from '../../errors.ts';
import type { AbortSignalLike } from '../../signals.ts';
import { duration } from '../../validation.ts';
import type {
  CallOptions,
  Coordinator,
  EndpointHealth,
  GrantReply,
  GrantRequest,
  LeaseTime,
  RangeReply,
  RangeRequest,
  Txn,
  TxnReply,
  Watch,
  WatchHandler,
  WatchRequest,
} from '../coordinator.ts';
import type { Send } from './endpoint.ts';
import { type CallPlan, Endpoints } from './endpoints.ts';
import { decodeRangeReply, decodeTxnReply, encodeRange, encodeTxn } from './kv-messages.ts';
import { type EtcdOptions, type ResolvedEtcdOptions, resolveEtcdOptions } from './options.ts';
import { PendingCalls } from './pending-calls.ts';
import { renewOnce } from './renewals.ts';
import { ANONYMOUS, describeMember } from './status.ts';
import { Turns } from './turns.ts';
import { Watchers } from './watchers.ts';
import { decodeLeaseTime, decodeRevision } from './wire.ts';

export type { EtcdCredentials } from './credentials.ts';
export type { EtcdAuth, EtcdOptions } from './options.ts';

/** A read may be asked of three members within its time. */
const READ: Omit<CallPlan, 'what'> = { tries: 3 };
const WRITE: Omit<CallPlan, 'what'> = { tries: 1 };
const DESCRIBE: CallPlan = { what: 'status', ...READ };
const RANGE: CallPlan = { what: 'range', ...READ };
const GRANT: CallPlan = { what: 'grant', ...WRITE };
const REVOKE: CallPlan = { what: 'revoke', ...WRITE };
const TXN: CallPlan = { what: 'txn', ...WRITE };
const READING_TXN: CallPlan = { what: 'txn', ...READ };
const TIME_TO_LIVE: CallPlan = { what: 'time to live', ...READ, requireLeader: true };
const RENEW: CallPlan = { what: 'renew', tries: 2, requireLeader: true };

/** Transactions and reads on their way at once. More would not make etcd, or Node's gRPC, any faster. */
const MAX_IN_FLIGHT = 128;

/**
 * etcd behind the port. Nothing is sent before the first call; `close()` ends everything.
 *
 * Its own limits: an endpoint is only ever asked once for a write that may have been applied, so a write on a
 * member that has just frozen takes its whole `timeoutMs` and then rejects with an unknown outcome. An HTTP
 * proxy named by the environment is not used.
 *
 * @throws `invalid-option`, naming the field and its value.
 */
export function etcdCoordinator(options: EtcdOptions): Coordinator {
  return new EtcdCoordinator(resolveEtcdOptions(options));
}

class EtcdCoordinator implements Coordinator {
  readonly clock: Clock;
  readonly #pending: PendingCalls;
  readonly #endpoints: Endpoints;
  readonly #turns: Turns = new Turns(MAX_IN_FLIGHT);
  readonly #watchers: Watchers;
  readonly #callTimeoutMs: number;
  /** The highest revision the cluster has shown us. */
  #seen = 0n;
  #closed: Promise<void> | undefined;

  constructor(options: ResolvedEtcdOptions) {
    this.clock = options.clock;
    this.#callTimeoutMs = options.callTimeoutMs;
    this.#pending = new PendingCalls(options.clock);
    this.#endpoints = new Endpoints(options, this.#pending, (endpoint) => this.#watchers.doubt(endpoint));
    this.#watchers = new Watchers({
      clock: options.clock,
      endpoints: this.#endpoints,
      pending: this.#pending,
      connectTimeoutMs: options.callTimeoutMs,
      observe: (revision) => this.#observe(revision),
      read: ({ key, rangeEnd }) => this.range({ key, rangeEnd, limit: 1, keysOnly: true }),
    });
  }

  async describe(options?: CallOptions): Promise<string> {
    try {
      return await this.#endpoints.call(DESCRIBE, options, describeMember);
    } catch (error) {
      if (error instanceof LockkeeperError && error.code === 'permission-denied') return ANONYMOUS;
      throw error;
    }
  }

  endpoints(): readonly EndpointHealth[] {
    return this.#endpoints.health();
  }

  async grant({ lease, ttlMs }: GrantRequest, options?: CallOptions): Promise<GrantReply> {
    const request = { ID: String(lease), TTL: String(Math.ceil(ttlMs / 1_000)) };
    const seenBefore = this.#seen;
    const reply = await this.#endpoints.call(GRANT, options, ({ leaseClient }, rpc) =>
      leaseClient.leaseGrant(request, rpc),
    );
    const revision = decodeRevision(reply.header);
    this.#observeLinearizable(seenBefore, revision);
    return { ttlMs: Number(reply.TTL) * 1_000, revision };
  }

  async renew(lease: bigint, options?: CallOptions): Promise<{ readonly ttlMs: number }> {
    const limitMs = options?.timeoutMs ?? this.#callTimeoutMs;
    const begun = this.clock.now();
    const ttlMs = await this.#renewOnce(lease, options);
    const leftMs = limitMs - (this.clock.now() - begun);
    if (ttlMs > 0 || leftMs <= 0 || this.#endpoints.health().length === 1) return { ttlMs };
    // A member that came back without its leases says so of one that the others still know: ask another.
    this.#endpoints.moveOn(this.#endpoints.current);
    return { ttlMs: await this.#renewOnce(lease, { ...options, timeoutMs: leftMs }) };
  }

  async timeToLive(lease: bigint, options?: CallOptions): Promise<LeaseTime | undefined> {
    const request = { ID: String(lease), keys: false };
    const reply = await this.#endpoints.call(TIME_TO_LIVE, options, ({ leaseClient }, rpc) =>
      leaseClient.leaseTimeToLive(request, rpc),
    );
    return decodeLeaseTime(reply);
  }

  async revoke(lease: bigint, options?: CallOptions): Promise<void> {
    const request = { ID: String(lease) };
    await this.#endpoints.call(REVOKE, options, ({ leaseClient }, rpc) =>
      leaseClient.leaseRevoke(request, rpc),
    );
  }

  async txn(txn: Txn, options?: CallOptions): Promise<TxnReply> {
    const request = encodeTxn(txn);
    const plan = isReadOnly(txn) ? READING_TXN : TXN;
    const reply = await this.#inTurn(plan, options, (_, rpc, unary) =>
      unary('/etcdserverpb.KV/Txn', request, rpc),
    );
    const decoded = understood(reply, decodeTxnReply);
    this.#observe(decoded.revision);
    return decoded;
  }

  async range(range: RangeRequest, options?: CallOptions): Promise<RangeReply> {
    const request = encodeRange(range);
    const seenBefore = this.#seen;
    const reply = await this.#inTurn(RANGE, options, (_, rpc, unary) =>
      unary('/etcdserverpb.KV/Range', request, rpc),
    );
    const decoded = understood(reply, decodeRangeReply);
    this.#observeLinearizable(seenBefore, decoded.revision);
    return decoded;
  }

  watch(request: WatchRequest, handler: WatchHandler): Watch {
    return this.#watchers.watch(request, handler);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * A burst of calls waits here rather than on the connection, where it would hold up the renewals, and where
   * each call that ran out of time would have an unknown outcome. What ran out of time here was not sent.
   */
  async #inTurn<T>(plan: CallPlan, options: CallOptions | undefined, send: Send<T>): Promise<T> {
    const limitMs = duration('timeoutMs', options?.timeoutMs ?? this.#callTimeoutMs, { min: 0 });
    const until = this.clock.now() + limitMs;
    if (!this.#turns.tryTake()) await this.#waitForTurn(plan, limitMs, options?.signal);
    try {
      const timeoutMs = Math.max(0, until - this.clock.now());
      return await this.#endpoints.call(plan, { ...options, timeoutMs }, send);
    } finally {
      this.#turns.give();
    }
  }

  async #waitForTurn(
    { what }: CallPlan,
    limitMs: number,
    signal: AbortSignalLike | undefined,
  ): Promise<void> {
    const place = this.#turns.queue();
    try {
      const waited = await this.#pending.wait(undefined, { limitMs, signal }, () => place.granted);
      if (waited.how === 'done') return;
      const text = `${what}: not sent within ${limitMs} ms, behind ${MAX_IN_FLIGHT} other calls in flight`;
      throw new LockkeeperError('unreachable', text, { outcome: 'rejected' });
    } catch (error) {
      place.leave();
      throw error;
    }
  }

  async #renewOnce(lease: bigint, options: CallOptions | undefined): Promise<number> {
    const reply = await this.#endpoints.call(RENEW, options, (client, rpc) => renewOnce(client, lease, rpc));
    return Math.max(0, Number(reply.TTL) * 1_000);
  }

  async #close(): Promise<void> {
    this.#pending.close();
    this.#watchers.close();
    this.#endpoints.close();
  }

  #observe(revision: bigint): 'new' | 'behind' {
    if (revision < this.#seen) return 'behind';
    this.#seen = revision;
    return 'new';
  }

  /**
   * A linearizable reply is never older than what was known before it was asked for, unless the data were
   * wiped, restored or rolled back.
   */
  #observeLinearizable(seenBefore: bigint, revision: bigint): void {
    if (revision >= seenBefore) {
      this.#observe(revision);
      return;
    }
    this.#seen = revision;
    const text = `etcd answered at revision ${revision} after it had been at revision ${seenBefore}`;
    this.#watchers.endAll(new LockkeeperError('history-regressed', text));
  }
}

function understood<T>(reply: Buffer, decode: (reply: Buffer) => T): T {
  try {
    return decode(reply);
  } catch (cause) {
    throw new LockkeeperError('unexpected-reply', 'etcd sent a reply that cannot be read', { cause });
  }
}

function isReadOnly({ success, failure }: Txn): boolean {
  return [success, failure].every((branch) =>
    branch.every(
      (operation) => operation.op === 'range' || (operation.op === 'txn' && isReadOnly(operation)),
    ),
  );
}
