import { FencingToken } from '@lockkeeper/fencing';
import type { CallOptions, Coordinator, KeyValue, OperationResult } from './coordinator/coordinator.ts';
import { LockkeeperError } from './errors.ts';
import { isDowngraded, readContender } from './lock/acquisition.ts';
import type { LockHost } from './lock/lock-host.ts';
import {
  belongTogether,
  checkKind,
  countHolders,
  type LockKind,
  type LockQueue,
  type Mode,
  queueOf,
} from './lock-kind.ts';
import { AbortScope } from './signals.ts';
import { checkObject, invalidOption } from './validation.ts';

export interface InspectOptions extends CallOptions {
  /** Default `lock`. */
  readonly kind?: LockKind | undefined;
  /** How many contenders are shown, those who came first; 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
}

/** Who stands behind a key in a queue, for people and for JSON. */
export interface InspectedContender {
  readonly key: string;
  /** Only in read/write locks. */
  readonly mode: Mode | undefined;
  /** Another program put it (`etcdctl lock`, a Go client), which tells nothing of itself. */
  readonly foreign: boolean;
  readonly acquisition: string | undefined;
  readonly identity: string | undefined;
  readonly host: string | undefined;
  readonly pid: number | undefined;
  /** Wall time of the contender's host when it queued, ISO 8601. */
  readonly since: string | undefined;
  /** Only in elections: what the candidate proclaims. */
  readonly value: string | undefined;
  /** What it holds by, or will; `keeper.break` takes it. `undefined` where it is foreign. */
  readonly token: FencingToken | undefined;
  /** At which its key was created: the order of the queue, and the token's. Decimal. */
  readonly revision: string;
  /** In hex, as `etcdctl` prints it. `undefined`: none, so it blocks until somebody deletes its key. */
  readonly lease: string | undefined;
  /**
   * How long its lease lives on unless it is renewed; whole seconds, rounded down. Read a moment after the queue.
   * `undefined` where it has no lease, the lease has ended since, or etcd did not tell (then a warning says so).
   */
  readonly ttlLeftMs: number | undefined;
}

/** A lock at one revision of etcd. Plain data, ready for JSON: a token prints as its one line of text. */
export interface LockInspection {
  readonly name: string;
  readonly kind: LockKind;
  /** The etcd history that the tokens belong to; `undefined` where its key is gone. */
  readonly lineage: string | undefined;
  /** Of the read. Decimal. */
  readonly revision: string;
  /** At most one, except for the readers of a read/write lock. Empty: free. */
  readonly holders: readonly InspectedContender[];
  /** In the order in which they will be served. */
  readonly waiters: readonly InspectedContender[];
  /** In all, those beyond `limit` included. */
  readonly contenders: number;
  /** What an operator should know, a sentence each; empty where all is well. */
  readonly warnings: readonly string[];
}

/** What operators' tools need of the keeper. */
export type OperatorHost = Pick<LockHost, 'options' | 'layout' | 'closing'>;

/** Leases asked after at once. */
const LOOKUPS_AT_ONCE = 8;

/** The picture of one lock: the queue in one linearizable read, then its leases' times. */
export async function inspectLock(
  { options: { coordinator }, layout, closing }: OperatorHost,
  name: string,
  options: InspectOptions,
): Promise<LockInspection> {
  checkObject('options', options);
  const queue = queueOf(layout, checkKind('kind', options.kind ?? 'lock'), name);
  const limit = checkCount('limit', options.limit ?? 100, 1_000);
  using scope = new AbortScope().follow(closing).follow(options.signal);
  const call = { timeoutMs: options.timeoutMs, signal: scope.signal };
  const { kvs, detailsOf, contenders, lineage, revision } = await readQueue(
    coordinator,
    queue,
    limit,
    layout.lineage,
    call,
  );
  const times = await readTimes(coordinator, new Set(kvs.map(({ lease }) => lease)), call);
  const shown = kvs.map((kv) => ({
    ...describeContender(queue, kv, detailsOf(kv), lineage),
    ttlLeftMs: times.leftMs.get(kv.lease),
  }));
  const holders = countHolders(shown.map(({ mode }) => mode));
  const warnings = [
    ...(lineage === undefined ? [`the lineage key ${layout.lineage} is gone: tokens cannot be told`] : []),
    ...kvs.flatMap((kv) => oddities(queue, kv)),
    ...times.warnings,
  ];
  return {
    name,
    kind: queue.kind,
    lineage,
    revision: `${revision}`,
    holders: shown.slice(0, holders),
    waiters: shown.slice(holders),
    contenders,
    warnings,
  };
}

/** A contender without what etcd must be asked for besides. */
export function describeContender(
  queue: Pick<LockQueue, 'kind' | 'modeOf'>,
  kv: KeyValue,
  details: KeyValue | undefined,
  lineage: string | undefined,
): Omit<InspectedContender, 'ttlLeftMs'> {
  const { key, createRevision, lease } = kv;
  const { acquisition, identity, host, pid, since } = readContender(
    details ?? { ...kv, value: new Uint8Array() },
  );
  // A writer that has become a reader keeps its key.
  const mode = isDowngraded(kv) ? 'read' : queue.modeOf(key);
  return {
    key,
    mode,
    foreign: acquisition === undefined,
    acquisition,
    identity,
    host,
    pid,
    since,
    value: queue.kind === 'election' ? new TextDecoder().decode(kv.value) : undefined,
    token: tokenOf(lineage, createRevision, acquisition, mode === 'read'),
    revision: `${createRevision}`,
    lease: lease === 0n ? undefined : lease.toString(16),
  };
}

/** What looks like details, but of no token that we could have given, is another program's. */
function tokenOf(
  lineage: string | undefined,
  revision: bigint,
  acquisition: string | undefined,
  shared: boolean,
): FencingToken | undefined {
  if (lineage === undefined || acquisition === undefined) return undefined;
  try {
    return new FencingToken({ lineage, revision, acquisition, shared });
  } catch {
    return undefined;
  }
}

interface QueueRead {
  /** In the order in which they came. */
  readonly kvs: readonly KeyValue[];
  readonly detailsOf: (kv: KeyValue) => KeyValue | undefined;
  readonly contenders: number;
  readonly lineage: string | undefined;
  readonly revision: bigint;
}

async function readQueue(
  coordinator: Coordinator,
  queue: LockQueue,
  limit: number,
  lineageKey: string,
  call: CallOptions,
): Promise<QueueRead> {
  const sort = { by: 'createRevision', order: 'ascend' } as const;
  // Some of the details may be of candidates who have gone; their owners are about to delete them.
  const details = queue.details && { op: 'range' as const, ...queue.details, sort, limit: 2 * limit };
  const reply = await coordinator.txn(
    {
      compare: [],
      success: [
        { op: 'range', key: lineageKey },
        { op: 'range', ...queue.span, sort, limit },
        ...(details === undefined ? [] : [details]),
      ],
      failure: [],
    },
    call,
  );
  const [lineage, found, beside] = reply.results.map(asRange);
  const kvs = found?.kvs ?? [];
  const byKey = new Map((queue.details === undefined ? kvs : (beside?.kvs ?? [])).map((kv) => [kv.key, kv]));
  return {
    kvs,
    detailsOf: (kv) => {
      const own = byKey.get(queue.detailsKeyOf(kv.key));
      return own !== undefined && belongTogether(kv, own) ? own : undefined;
    },
    contenders: found?.count ?? 0,
    lineage: textOf(lineage?.kvs[0]),
    revision: reply.revision,
  };
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

/** What an operator should look into. */
function oddities({ kind }: LockQueue, { key, lease, version }: KeyValue): string[] {
  const shown = JSON.stringify(key);
  const odd: string[] = [];
  if (lease === 0n)
    odd.push(`the key ${shown} has no lease: it stays, and blocks, until somebody deletes it`);
  if (kind !== 'election' && version > 1n)
    odd.push(`the key ${shown} was written over: its owner, if it is one of ours, takes the lock for lost`);
  return odd;
}

/** A lease that etcd does not tell of leaves the rest of the picture as it is. */
async function readTimes(
  coordinator: Coordinator,
  leases: ReadonlySet<bigint>,
  call: CallOptions & { readonly signal: AbortSignal },
): Promise<{ leftMs: Map<bigint, number>; warnings: string[] }> {
  const leftMs = new Map<bigint, number>();
  const left = [...leases].filter((lease) => lease !== 0n);
  const asked = left.length;
  let untold = 0;
  let why: unknown;
  const work = async (): Promise<void> => {
    for (let lease = left.pop(); lease !== undefined; lease = left.pop()) {
      try {
        const time = await coordinator.timeToLive(lease, call);
        if (time !== undefined) leftMs.set(lease, time.ttlMs);
      } catch (error) {
        call.signal.throwIfAborted();
        untold += 1;
        why = error;
        // Where one cannot be had the others would only take as long again.
        untold += left.splice(0).length;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(LOOKUPS_AT_ONCE, left.length) }, work));
  if (untold === 0) return { leftMs, warnings: [] };
  const message = why instanceof Error ? why.message : String(why);
  return {
    leftMs,
    warnings: [`etcd did not tell how long ${untold} of ${asked} leases live on: ${message}`],
  };
}
