import { type Clock, systemClock } from '../../clock.ts';
import { LockkeeperError } from '../../errors.ts';
import { duration, invalidOption } from '../../validation.ts';
import type {
  GrantReply,
  GrantRequest,
  KeySpan,
  KeyValue,
  LeaseTime,
  OperationResult,
  RangeReply,
  RangeRequest,
  RangeResult,
  Txn,
  TxnReply,
  TxnResult,
  WatchHandler,
  WatchRequest,
} from '../coordinator.ts';
import { type ByteKey, toByteKey, toByteSpan } from './byte-key.ts';
import { checkKey, checkTxn } from './check-txn.ts';
import { type Change, copyOf, History } from './history.ts';
import { KeyTable } from './key-table.ts';
import { type Lease, LeaseTable } from './lease-table.ts';
import { planTxn, putsOf, type TxnPlan, type TxnStep } from './txn-plan.ts';

export interface MemoryStoreOptions {
  /** Drives the expiry of leases. Default: the system clock. */
  readonly clock?: Clock | undefined;
  /**
   * The shortest TTL that is granted, in milliseconds. Default 2,000, which is what etcd's default election
   * timeout comes to: code that is tested with a second here would get two in production. TTLs are whole
   * seconds, as etcd counts them, so nothing below 1,000 makes a difference.
   */
  readonly minTtlMs?: number | undefined;
  /**
   * How many of the latest revisions a watch can at least start from, before it ends with `compacted`.
   * Default 20,000.
   */
  readonly retainRevisions?: number | undefined;
}

const DEFAULT_MIN_TTL_MS = 2_000;
const DEFAULT_RETAIN_REVISIONS = 20_000;
const MAX_LEASE = 2n ** 63n - 1n;
/** etcd's limit, about 285 years. */
const MAX_TTL_MS = 9e12;

/**
 * etcd's state machine in memory: revisions, leases, transactions and watches as one etcd member applies
 * them. Every method acts at once, within the call, on the state that the leases' expiry has left by then;
 * what makes that a conversation (asynchronous replies, closing) is the coordinator's part. Whatever goes
 * in or comes out is copied.
 */
export class MemoryStore {
  readonly clock: Clock;
  readonly #minTtlMs: number;
  readonly #keys = new KeyTable();
  readonly #leases: LeaseTable;
  readonly #history: History;
  #revision = 1n;

  constructor(options: MemoryStoreOptions = {}) {
    this.clock = options.clock ?? systemClock;
    this.#minTtlMs = duration('minTtlMs', options.minTtlMs ?? DEFAULT_MIN_TTL_MS, {
      min: 1,
      max: MAX_TTL_MS,
    });
    const retain = options.retainRevisions ?? DEFAULT_RETAIN_REVISIONS;
    if (!(Number.isSafeInteger(retain) && retain >= 1)) {
      throw invalidOption('retainRevisions', retain, 'expected a whole number from 1');
    }
    this.#history = new History(retain);
    this.#leases = new LeaseTable(this.clock, () => this.#expireLeases());
  }

  /** Of the last change; 1 at first. */
  get revision(): bigint {
    this.#expireLeases();
    return this.#revision;
  }

  grant({ lease, ttlMs }: GrantRequest): GrantReply {
    this.#expireLeases();
    if (!(lease >= 1n && lease <= MAX_LEASE)) throw invalidOption('lease', lease, 'expected 1 to 2^63-1');
    duration('ttlMs', ttlMs, { min: 1, max: MAX_TTL_MS });
    if (this.#leases.get(lease) !== undefined) {
      throw new LockkeeperError('lease-exists', `lease ${lease.toString(16)} exists already`);
    }
    const granted = Math.ceil(Math.max(ttlMs, this.#minTtlMs) / 1_000) * 1_000;
    this.#leases.add(lease, granted);
    return { ttlMs: granted, revision: this.#revision };
  }

  renew(id: bigint): { readonly ttlMs: number } {
    this.#expireLeases();
    const lease = this.#leases.get(id);
    if (lease === undefined) return { ttlMs: 0 };
    this.#leases.renew(lease);
    return { ttlMs: lease.ttlMs };
  }

  timeToLive(id: bigint): LeaseTime | undefined {
    this.#expireLeases();
    const lease = this.#leases.get(id);
    if (lease === undefined) return undefined;
    const leftMs = lease.expiresAt - this.clock.now();
    return { ttlMs: Math.floor(leftMs / 1_000) * 1_000, grantedTtlMs: lease.ttlMs };
  }

  revoke(id: bigint): void {
    this.#expireLeases();
    const lease = this.#leases.get(id);
    if (lease === undefined) throw leaseNotFound(id);
    this.#leases.remove(lease);
    this.#deleteKeysOf(lease);
  }

  txn(txn: Txn): TxnReply {
    this.#expireLeases();
    checkTxn(txn);
    const plan = planTxn(txn, this.#keys);
    for (const { lease } of putsOf(plan)) {
      if (lease && this.#leases.get(lease) === undefined) throw leaseNotFound(lease);
    }
    const changes: Change[] = [];
    const result = this.#run(plan, changes);
    this.#commit(changes);
    return { ...result, revision: this.#revision };
  }

  range(request: RangeRequest): RangeReply {
    this.#expireLeases();
    checkKey(request);
    return { ...this.#read(request), revision: this.#revision };
  }

  /**
   * Calls the handler within this call (with the past, or its end) and within each call that makes a
   * change: it must only take note, neither throw nor call back. Returns how to end the watch.
   */
  watch(request: WatchRequest, handler: WatchHandler): () => void {
    this.#expireLeases();
    checkKey(request);
    if (request.startRevision < 1n) {
      throw invalidOption('startRevision', request.startRevision, 'expected 1 or more');
    }
    return this.#history.subscribe(request, handler);
  }

  /**
   * Forgets the history before `revision`, as an operator's or etcd's own compaction does: a watch that
   * starts earlier ends with `compacted`. Compacting again to the same or an older revision does nothing.
   * @throws RangeError for a revision that is still to come.
   */
  compact(revision: bigint): void {
    this.#expireLeases();
    if (revision > this.#revision) {
      throw new RangeError(`compact: revision is ${revision}; the store is at ${this.#revision}`);
    }
    this.#history.compact(revision);
  }

  #expireLeases(): void {
    for (const lease of this.#leases.takeExpired()) this.#deleteKeysOf(lease);
  }

  #deleteKeysOf(lease: Lease): void {
    const changes: Change[] = [];
    for (const id of [...lease.keys].sort()) this.#delete(id, changes);
    this.#commit(changes);
  }

  /** Cannot fail: all that could was checked before, so that a refused transaction has changed nothing. */
  #run({ succeeded, steps }: TxnPlan, changes: Change[]): TxnResult {
    return { succeeded, results: steps.map((step) => this.#step(step, changes)) };
  }

  #step(step: TxnStep, changes: Change[]): OperationResult {
    switch (step.op) {
      case 'range':
        return { op: 'range', ...this.#read(step) };
      case 'put':
        this.#put(step, changes);
        return { op: 'put' };
      case 'delete':
        return { op: 'delete', deleted: this.#deleteSpan(step, changes) };
      case 'txn':
        return { op: 'txn', ...this.#run(step.plan, changes) };
    }
  }

  #put({ key, value, lease = 0n }: Extract<TxnStep, { op: 'put' }>, changes: Change[]): void {
    const id = toByteKey(key);
    const before = this.#keys.get(id);
    const revision = this.#revision + 1n;
    const kv: KeyValue = {
      key: before?.key ?? Buffer.from(id, 'latin1').toString('utf8'),
      value: typeof value === 'string' ? new TextEncoder().encode(value) : new Uint8Array(value),
      createRevision: before?.createRevision ?? revision,
      modRevision: revision,
      version: (before?.version ?? 0n) + 1n,
      lease,
    };
    if (before !== undefined) this.#leases.get(before.lease)?.keys.delete(id);
    this.#leases.get(lease)?.keys.add(id);
    this.#keys.set(id, kv);
    changes.push({ id, event: { type: 'put', kv } });
  }

  #deleteSpan(span: KeySpan, changes: Change[]): number {
    const ids = Array.from(this.#keys.scan(toByteSpan(span)), ([id]) => id);
    for (const id of ids) this.#delete(id, changes);
    return ids.length;
  }

  #delete(id: ByteKey, changes: Change[]): void {
    const before = this.#keys.get(id);
    if (before === undefined) return;
    this.#leases.get(before.lease)?.keys.delete(id);
    this.#keys.delete(id);
    changes.push({ id, event: { type: 'delete', key: before.key, modRevision: this.#revision + 1n } });
  }

  #commit(changes: readonly Change[]): void {
    if (changes.length === 0) return;
    this.#revision += 1n;
    this.#history.append(this.#revision, changes);
  }

  #read(request: RangeRequest): RangeResult {
    const span = toByteSpan(request);
    const { sort, keysOnly, maxCreateRevision } = request;
    const limit = request.limit ? request.limit : Number.POSITIVE_INFINITY;
    let found: KeyValue[] = [];
    for (const [, kv] of this.#keys.scan(span)) {
      if (sort === undefined && found.length >= limit) break;
      if (maxCreateRevision === undefined || kv.createRevision <= maxCreateRevision) found.push(kv);
    }
    if (sort !== undefined) found = sorted(found, sort).slice(0, limit);
    return { kvs: found.map((kv) => copyOf(kv, keysOnly)), count: this.#keys.count(span) };
  }
}

/** The store that several coordinators share: `memoryCoordinator({ store })`. */
export function memoryStore(options?: MemoryStoreOptions): MemoryStore {
  return new MemoryStore(options);
}

/** Keys that tie keep their byte order in either direction, as etcd's do. */
function sorted(kvs: KeyValue[], { by, order }: NonNullable<RangeRequest['sort']>): KeyValue[] {
  if (by === 'key') return order === 'ascend' ? kvs : kvs.reverse();
  const sign = order === 'ascend' ? 1 : -1;
  return kvs.sort((a, b) => sign * Number(a[by] - b[by]));
}

function leaseNotFound(id: bigint): LockkeeperError {
  return new LockkeeperError('lease-not-found', `lease ${id.toString(16)} is not known: expired or revoked`);
}
