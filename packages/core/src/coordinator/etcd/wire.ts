import type { ILeaseTimeToLiveResponse, IResponseHeader } from 'etcd3';
import { LockkeeperError } from '../../errors.ts';
import type { LeaseTime } from '../coordinator.ts';

/**
 * The port's words in the messages of `etcd3`'s stubs and back: for leases, where 64-bit integers are decimal text.
 * Transactions and ranges: `kv-messages.ts`; watches: `watch-messages.ts`.
 */

export function decodeRevision(header: IResponseHeader | null | undefined): bigint {
  if (!header) throw unexpected('a reply without a header');
  return BigInt(header.revision);
}

/**
 * Only the granted time tells an unknown lease, with 0: the time left is negative also for one that is overdue.
 * A member that has just been elected may say 292 years, before it has set its clocks.
 */
export function decodeLeaseTime({ TTL, grantedTTL }: ILeaseTimeToLiveResponse): LeaseTime | undefined {
  const granted = Number(grantedTTL);
  if (granted <= 0) return undefined;
  const left = Math.min(Math.max(0, Number(TTL)), granted);
  return { ttlMs: left * 1_000, grantedTtlMs: granted * 1_000 };
}

function unexpected(what: string): LockkeeperError {
  return new LockkeeperError('unexpected-reply', `etcd sent ${what}`);
}
