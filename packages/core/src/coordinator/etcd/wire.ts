import {
  CompareResult,
  CompareTarget,
  type ICompare,
  type IEvent,
  type IKeyValue,
  type ILeaseTimeToLiveResponse,
  type IRangeRequest,
  type IRangeResponse,
  type IRequestOp,
  type IResponseHeader,
  type IResponseOp,
  type ITxnRequest,
  type ITxnResponse,
  SortOrder,
  SortTarget,
} from 'etcd3';
import { LockkeeperError } from '../../errors.ts';
import type {
  Compare,
  KeySpan,
  KeyValue,
  LeaseTime,
  Operation,
  OperationResult,
  RangeReply,
  RangeRequest,
  RangeResult,
  Txn,
  TxnReply,
  TxnResult,
  WatchEvent,
} from '../coordinator.ts';

/**
 * The port's words in etcd's messages and back. Enums go out as numbers: a misspelt name would silently be
 * encoded as 0. 64-bit integers travel as decimal strings.
 */

const RESULT = {
  '=': CompareResult.Equal,
  '!=': CompareResult.NotEqual,
  '<': CompareResult.Less,
  '>': CompareResult.Greater,
} as const;

const SORT_TARGET = {
  key: SortTarget.Key,
  createRevision: SortTarget.Create,
  modRevision: SortTarget.Mod,
} as const;

const SORT_ORDER = { ascend: SortOrder.Ascend, descend: SortOrder.Descend } as const;

export function encodeSpan({ key, rangeEnd }: KeySpan): { key: Buffer; range_end?: Buffer } {
  if (rangeEnd === undefined) return { key: Buffer.from(key) };
  return { key: Buffer.from(key), range_end: Buffer.from(rangeEnd) };
}

export function encodeRange(range: RangeRequest): IRangeRequest {
  const request: IRangeRequest = encodeSpan(range);
  if (range.limit !== undefined) request.limit = range.limit;
  if (range.sort !== undefined) {
    request.sort_target = SORT_TARGET[range.sort.by];
    request.sort_order = SORT_ORDER[range.sort.order];
  }
  if (range.keysOnly) request.keys_only = true;
  if (range.maxCreateRevision !== undefined) request.max_create_revision = String(range.maxCreateRevision);
  return request;
}

export function encodeTxn(txn: Txn): ITxnRequest {
  return {
    compare: txn.compare.map(encodeCompare),
    success: txn.success.map(encodeOperation),
    failure: txn.failure.map(encodeOperation),
  };
}

function encodeCompare(compare: Compare): ICompare {
  const request: ICompare = { ...encodeSpan(compare), result: RESULT[compare.is] };
  switch (compare.target) {
    case 'createRevision':
      return { ...request, target: CompareTarget.Create, create_revision: String(compare.to) };
    case 'modRevision':
      return { ...request, target: CompareTarget.Mod, mod_revision: String(compare.to) };
    case 'version':
      return { ...request, target: CompareTarget.Version, version: String(compare.to) };
    case 'lease':
      return { ...request, target: CompareTarget.Lease, lease: String(compare.to) };
    case 'value':
      return { ...request, target: CompareTarget.Value, value: encodeValue(compare.to) };
  }
}

function encodeOperation(operation: Operation): IRequestOp {
  switch (operation.op) {
    case 'range':
      return { request_range: encodeRange(operation) };
    case 'put':
      return {
        request_put: {
          key: Buffer.from(operation.key),
          value: encodeValue(operation.value),
          lease: String(operation.lease ?? 0n),
        },
      };
    case 'delete':
      return { request_delete_range: encodeSpan(operation) };
    case 'txn':
      return { request_txn: encodeTxn(operation) };
  }
}

function encodeValue(value: string | Uint8Array): Buffer {
  return Buffer.from(value);
}

export function decodeRevision(header: IResponseHeader | null | undefined): bigint {
  if (!header) throw unexpected('a reply without a header');
  return BigInt(header.revision);
}

export function decodeRangeReply(reply: IRangeResponse): RangeReply {
  return { ...decodeRange(reply), revision: decodeRevision(reply.header) };
}

export function decodeTxnReply(reply: ITxnResponse): TxnReply {
  return { ...decodeTxn(reply), revision: decodeRevision(reply.header) };
}

function decodeRange(reply: IRangeResponse): RangeResult {
  return { kvs: reply.kvs.map(decodeKeyValue), count: Number(reply.count) };
}

function decodeTxn(reply: ITxnResponse): TxnResult {
  return { succeeded: reply.succeeded, results: reply.responses.map(decodeResult) };
}

function decodeResult(reply: Partial<IResponseOp>): OperationResult {
  if (reply.response_range) return { op: 'range', ...decodeRange(reply.response_range) };
  if (reply.response_put) return { op: 'put' };
  if (reply.response_delete_range) {
    return { op: 'delete', deleted: Number(reply.response_delete_range.deleted) };
  }
  if (reply.response_txn) return { op: 'txn', ...decodeTxn(reply.response_txn) };
  throw unexpected('a transaction with a result of an unknown kind');
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
