import { randomUUID } from 'node:crypto';
import { connect, etcdCoordinator, type Hold, type Keeper } from '@lockkeeper/core';
import type { Claimable, FencingToken } from '@lockkeeper/fencing';
import type { EtcdServer } from './etcd-server.ts';
import { FreezableClock } from './freezable-clock.ts';
import { checkFunction, invalid } from './options.ts';
import { startTcpProxy } from './tcp-proxy.ts';

export interface LateWriteOptions<Read, Result> {
  /** The name of the lock. */
  readonly lock: string;
  /** The guards that promise at each grant to refuse every older token, as `acquire` takes them. Default: none. */
  readonly claims?: readonly Claimable[] | undefined;
  /** What a holder looks at before it writes; the late writer does so before its pause. Default: nothing. */
  readonly read?: ((hold: Hold) => Promise<Read> | Read) | undefined;
  /** The write, by the late writer and by the one that took over. Rejects when the storage refuses. */
  readonly write: (hold: Hold, read: Read) => Promise<Result> | Result;
  /** The TTL of both. Default 2,000, the least that etcd grants. */
  readonly ttlMs?: number | undefined;
}

export interface LateWritePlace {
  readonly etcd: Pick<EtcdServer, 'endpoint'>;
  /** Default: one of its own. */
  readonly namespace?: string | undefined;
}

/** What became of the late write. */
export type LateWriteOutcome<Result> =
  | { readonly outcome: 'accepted'; readonly token: FencingToken; readonly result: Result }
  | { readonly outcome: 'refused'; readonly token: FencingToken; readonly error: unknown };

export interface LateWrite<Result> {
  readonly late: LateWriteOutcome<Result>;
  /** The write of the one that took over. */
  readonly newer: { readonly token: FencingToken; readonly result: Result };
}

/** A write that goes by way of the late keeper itself, such as `fencedTxn(hold)`, gets no further before that. */
const OWN_ETCD_AFTER_MS = 1_000;

/**
 * One late write, in this process: a holder reads, and stands still past its lease, since nothing of its keeper runs
 * and nothing reaches it; another one gets the lock, reads, and writes; then the first writes with its old token, as
 * if it had just looked: its hold still says `held`. A late write that has not ended after a second gets its keeper's
 * connection back, so that one inside etcd (`fencedTxn(hold)`) arrives there.
 *
 * For storages with a guard in tests of your own; `lateWriteDrill` shows the same with real processes. What shall be
 * in the storage afterwards is for the test to say: look there.
 * @throws what `read` and `write` throw for the newer holder, and what etcd or a guard does.
 */
export async function lateWrite<Read = undefined, Result = unknown>(
  options: LateWriteOptions<Read, Result> & LateWritePlace,
): Promise<LateWrite<Result>> {
  const { etcd, lock, claims, ttlMs = 2_000, namespace = `late-write-${randomUUID()}`, write } = options;
  checkFunction('write', write);
  if (typeof etcd?.endpoint !== 'string') throw invalid('etcd', etcd, 'a server with an endpoint');
  // Where there is no `read`, `Read` is undefined.
  const read = async (hold: Hold) => (await options.read?.(hold)) as Read;
  const acquire = (keeper: Keeper) => keeper.lock(lock).acquire({ claims, waitTimeoutMs: 10 * ttlMs });

  const clock = new FreezableClock();
  await using proxy = await startTcpProxy(etcd.endpoint);
  await using newerKeeper = await connect({ hosts: etcd.endpoint, namespace, ttlMs, identity: 'newer' });
  await using lateKeeper = await connect({
    coordinator: etcdCoordinator({ hosts: proxy.url, clock }),
    namespace,
    ttlMs,
    identity: 'late',
  });
  const lateHold = await acquire(lateKeeper);
  const lateRead = await read(lateHold);

  clock.freeze();
  const network = proxy.blackhole();
  const goOn = () => {
    network.restore();
    clock.thaw();
  };
  try {
    const hold = await acquire(newerKeeper);
    const result = await write(hold, await read(hold));
    const ownEtcd = setTimeout(goOn, OWN_ETCD_AFTER_MS);
    const late = await attempt(lateHold.token, () => write(lateHold, lateRead));
    clearTimeout(ownEtcd);
    await hold.release();
    return { late, newer: { token: hold.token, result } };
  } finally {
    goOn();
  }
}

async function attempt<Result>(
  token: FencingToken,
  write: () => Promise<Result> | Result,
): Promise<LateWriteOutcome<Result>> {
  try {
    return { outcome: 'accepted', token, result: await write() };
  } catch (error) {
    return { outcome: 'refused', token, error };
  }
}
