import type { IEvent, IKeyValue, ILeaseTimeToLiveResponse, IResponseHeader } from 'etcd3';
import { LockkeeperError } from '../../errors.ts';
import type { KeySpan, KeyValue, LeaseTime, WatchEvent } from '../coordinator.ts';

/**
 * The port's words in the messages of `etcd3`'s stubs and back: for leases and watches, where 64-bit integers are
 * decimal text. Transactions and ranges: `kv-messages.ts`.
 */

export function encodeSpan({ key, rangeEnd }: KeySpan): { key: Buffer; range_end?: Buffer } {
  if (rangeEnd === undefined) return { key: Buffer.from(key) };
  return { key: Buffer.from(key), range_end: Buffer.from(rangeEnd) };
}

export function decodeRevision(header: IResponseHeader | null | undefined): bigint {
  if (!header) throw unexpected('a reply without a header');
  return BigInt(header.revision);
}

function decodeKeyValue(kv: IKeyValue): KeyValue {
  return {
    key: kv.key.toString(),
    value: kv.value,
    createRevision: BigInt(kv.create_revision),
    modRevision: BigInt(kv.mod_revision),
    version: BigInt(kv.version),
    lease: BigInt(kv.lease),
  };
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

export function decodeEvent({ type, kv }: IEvent): WatchEvent {
  if (type === 'Put') return { type: 'put', kv: decodeKeyValue(kv) };
  return { type: 'delete', key: kv.key.toString(), modRevision: BigInt(kv.mod_revision) };
}

export function modRevisionOf(event: WatchEvent): bigint {
  return event.type === 'put' ? event.kv.modRevision : event.modRevision;
}

function unexpected(what: string): LockkeeperError {
  return new LockkeeperError('unexpected-reply', `etcd sent ${what}`);
}
