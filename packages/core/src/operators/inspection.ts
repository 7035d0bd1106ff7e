import { FencingToken } from '@lockkeeper/fencing';
import type { CallOptions, KeyValue, OperationResult } from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import { readContender } from '../lock/acquisition.ts';
import type { LockKind } from '../lock/key-layout.ts';
import type { LockHost } from '../lock/lock-host.ts';
import { AbortScope, type AbortSignalLike } from '../signals.ts';
import { checkCall, invalidOption } from '../validation.ts';

// What the pictures of every kind of lock have in common.

export interface InspectOptions<Kind extends LockKind = LockKind> extends CallOptions {
  /** Default `lock`. */
  readonly kind?: Kind | undefined;
  /** How many contenders are shown, those who came first; 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
}

/** Who put a key, as far as it tells of itself. */
export interface KeyOwner {
  readonly key: string;
  /** Another program put it (`etcdctl lock`, a Go client), which tells nothing of itself. */
  readonly foreign: boolean;
  readonly acquisition: string | undefined;
  readonly identity: string | undefined;
  readonly host: string | undefined;
  readonly pid: number | undefined;
  /** Wall time of the contender's host when it queued, ISO 8601. */
  readonly since: string | undefined;
  /** At which its key was created: the order of the queue, and the token's. Decimal. */
  readonly revision: string;
  /** In hex, as `etcdctl` prints it. `undefined`: none, so it blocks until somebody deletes its key. */
  readonly lease: string | undefined;
}

/** How long a contender stays if it falls silent. */
export interface LeaseLeft {
  /**
   * How long its lease lives on unless it is renewed; whole seconds, rounded down. Read a moment after the queue.
   * `undefined` where it has no lease, the lease has ended since, or etcd did not tell (then a warning says so).
   */
  readonly ttlLeftMs: number | undefined;
}

/** What operators' tools need of the keeper. */
export type OperatorHost = Pick<LockHost, 'options' | 'layout' | 'closing'>;

/** What every picture begins with. */
export interface Inspecting {
  readonly limit: number;
  readonly call: CallOptions & { readonly signal: AbortSignalLike };
}

/** Checks the options, and runs `work` until the keeper closes. */
export async function inspecting<T>(
  { closing }: OperatorHost,
  options: InspectOptions,
  work: (inspecting: Inspecting) => Promise<T>,
): Promise<T> {
  const { signal, timeoutMs } = checkCall(options);
  const limit = checkCount('limit', options.limit ?? 100, 1_000);
  using scope = new AbortScope().follow(closing).follow(signal);
  return await work({ limit, call: { timeoutMs, signal: scope.signal } });
}

export function missingLineage(key: string, lineage: string | undefined): string[] {
  return lineage === undefined ? [`the lineage key ${key} is gone: tokens cannot be told`] : [];
}

/** @param details - what says who put `kv`, where that is known. */
export function describeOwner(kv: KeyValue, details: KeyValue | undefined): KeyOwner {
  const { key, createRevision, lease } = kv;
  const { acquisition, identity, host, pid, since } = readContender(
    details ?? { ...kv, value: new Uint8Array() },
  );
  return {
    key,
    foreign: acquisition === undefined,
    acquisition,
    identity,
    host,
    pid,
    since,
    revision: `${createRevision}`,
    lease: lease === 0n ? undefined : lease.toString(16),
  };
}

/** What looks like details, but of no token that we could have given, is another program's. */
export function tokenOf(
  lineage: string | undefined,
  revision: bigint,
  acquisition: string | undefined,
  shared = false,
): FencingToken | undefined {
  if (lineage === undefined || acquisition === undefined) return undefined;
  try {
    return new FencingToken({ lineage, revision, acquisition, shared });
  } catch {
    return undefined;
  }
}

export function asRange(result: OperationResult): Extract<OperationResult, { op: 'range' }> {
  if (result.op === 'range') return result;
  throw new LockkeeperError('unexpected-reply', `etcd answered a range with a ${result.op}`);
}

export function textOf(kv: KeyValue | undefined): string | undefined {
  return kv && new TextDecoder().decode(kv.value);
}

/** @throws LockkeeperError `invalid-option` */
export function checkCount(field: string, value: unknown, max: number): number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max) return value as number;
  throw invalidOption(field, value, `expected a whole number from 1 to ${max}`);
}

/**
 * What an operator should look into.
 * @param spoilt - what its owner takes for lost when the key is written over; `undefined` where owners may do that.
 */
export function oddities({ key, lease, version }: KeyValue, spoilt: string | undefined): string[] {
  const shown = JSON.stringify(key);
  const odd: string[] = [];
  if (lease === 0n)
    odd.push(`the key ${shown} has no lease: it stays, and blocks, until somebody deletes it`);
  if (spoilt !== undefined && version > 1n)
    odd.push(`the key ${shown} was written over: its owner, if it is one of ours, takes ${spoilt} for lost`);
  return odd;
}
