import type {
  Compare,
  KeySpan,
  KeyValue,
  Operation,
  OperationResult,
  RangeReply,
  RangeRequest,
  RangeResult,
  Txn,
  TxnReply,
  TxnResult,
} from '../coordinator.ts';
import { ProtoReader } from './proto-reader.ts';
import { ProtoWriter } from './proto-writer.ts';

/**
 * Transactions and ranges, straight from the port's words to the bytes of etcd's `rpc.proto` and back. They are most of
 * what is sent, and by the generic way (`fromObject`, then `encode`; 64-bit integers as decimal text) they cost more
 * than etcd takes to carry them out. Numbers of fields are those of the messages named; what is written last comes
 * first: see `ProtoWriter`.
 */

const RESULT = { '=': 0, '>': 1, '<': 2, '!=': 3 } as const;
const TARGET = { version: 0, createRevision: 1, modRevision: 2, value: 3, lease: 4 } as const;
/** The field of the operand, by target. */
const OPERAND = { version: 4, createRevision: 5, modRevision: 6, value: 7, lease: 8 } as const;
const SORT_ORDER = { ascend: 1, descend: 2 } as const;
const SORT_TARGET = { key: 0, createRevision: 2, modRevision: 3 } as const;

export function encodeTxn(txn: Txn): Buffer {
  const writer = new ProtoWriter();
  writeTxn(writer, txn);
  return writer.finish();
}

export function encodeRange(range: RangeRequest): Buffer {
  const writer = new ProtoWriter();
  writeRange(writer, range);
  return writer.finish();
}

/** `TxnRequest`. */
function writeTxn(writer: ProtoWriter, { compare, success, failure }: Txn): void {
  writeOperations(writer, 3, failure);
  writeOperations(writer, 2, success);
  for (let at = compare.length - 1; at >= 0; at -= 1) {
    const { mark } = writer;
    writeCompare(writer, compare[at] as Compare);
    writer.nested(1, mark);
  }
}

/** `Compare`. */
function writeCompare(writer: ProtoWriter, compare: Compare): void {
  if (compare.rangeEnd !== undefined) writer.text(64, compare.rangeEnd);
  if (compare.target === 'value') writeValue(writer, OPERAND.value, compare.to);
  else writer.int64(OPERAND[compare.target], compare.to);
  writer.text(3, compare.key);
  writer.number(2, TARGET[compare.target]);
  writer.number(1, RESULT[compare.is]);
}

/** `RequestOp`s. */
function writeOperations(writer: ProtoWriter, field: number, operations: readonly Operation[]): void {
  for (let at = operations.length - 1; at >= 0; at -= 1) {
    const { mark } = writer;
    writer.nested(writeOperation(writer, operations[at] as Operation), mark);
    writer.nested(field, mark);
  }
}

/** Returns its field of `RequestOp`. */
function writeOperation(writer: ProtoWriter, operation: Operation): 1 | 2 | 3 | 4 {
  switch (operation.op) {
    case 'range':
      writeRange(writer, operation);
      return 1;
    case 'put': // `PutRequest`
      if (operation.lease) writer.int64(3, operation.lease);
      writeValue(writer, 2, operation.value);
      writer.text(1, operation.key);
      return 2;
    case 'delete': // `DeleteRangeRequest`
      writeSpan(writer, operation);
      return 3;
    case 'txn':
      writeTxn(writer, operation);
      return 4;
  }
}

/** `RangeRequest`. */
function writeRange(writer: ProtoWriter, range: RangeRequest): void {
  if (range.maxCreateRevision !== undefined) writer.int64(13, range.maxCreateRevision);
  if (range.keysOnly) writer.number(8, 1);
  if (range.sort !== undefined) {
    writer.number(6, SORT_TARGET[range.sort.by]);
    writer.number(5, SORT_ORDER[range.sort.order]);
  }
  if (range.limit !== undefined) writer.int64(3, BigInt(range.limit));
  writeSpan(writer, range);
}

export function writeSpan(writer: ProtoWriter, { key, rangeEnd }: KeySpan): void {
  if (rangeEnd !== undefined) writer.text(2, rangeEnd);
  writer.text(1, key);
}

function writeValue(writer: ProtoWriter, field: number, value: string | Uint8Array): void {
  if (typeof value === 'string') writer.text(field, value);
  else if (value instanceof Uint8Array) writer.bytes(field, value);
  else throw new TypeError(`a value is ${String(value)}; expected a string or bytes`);
}

export function decodeTxnReply(message: Buffer): TxnReply {
  return readTxn(new ProtoReader(message));
}

export function decodeRangeReply(message: Buffer): RangeReply {
  return readRange(new ProtoReader(message));
}

/** `TxnResponse`. */
function readTxn(reader: ProtoReader): TxnResult & { revision: bigint } {
  const results: OperationResult[] = [];
  let succeeded = false;
  let revision = 0n;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) revision = reader.nested(readRevision);
    else if (field === 2) succeeded = reader.number() !== 0;
    else if (field === 3) results.push(reader.nested(readResult));
    else reader.skip();
  }
  return { succeeded, results, revision };
}

/** `ResponseHeader`. */
export function readRevision(reader: ProtoReader): bigint {
  let revision = 0n;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 3) revision = reader.int64();
    else reader.skip();
  }
  return revision;
}

/** `ResponseOp`. */
function readResult(reader: ProtoReader): OperationResult {
  const field = reader.next();
  switch (field) {
    case 1: {
      const { kvs, count } = reader.nested(readRange);
      return { op: 'range', kvs, count };
    }
    case 2:
      reader.skip();
      return { op: 'put' };
    case 3:
      return { op: 'delete', deleted: reader.nested(readDeleted) };
    case 4: {
      const { succeeded, results } = reader.nested(readTxn);
      return { op: 'txn', succeeded, results };
    }
    default:
      throw new RangeError(`a result of kind ${field}`);
  }
}

/** `DeleteRangeResponse`. */
function readDeleted(reader: ProtoReader): number {
  let deleted = 0;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 2) deleted = Number(reader.int64());
    else reader.skip();
  }
  return deleted;
}

/** `RangeResponse`. */
function readRange(reader: ProtoReader): RangeResult & { revision: bigint } {
  const kvs: KeyValue[] = [];
  let count = 0;
  let revision = 0n;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) revision = reader.nested(readRevision);
    else if (field === 2) kvs.push(reader.nested(readKeyValue));
    else if (field === 4) count = Number(reader.int64());
    else reader.skip();
  }
  return { kvs, count, revision };
}

/** `KeyValue`. */
export function readKeyValue(reader: ProtoReader): KeyValue {
  let key = '';
  let value: Uint8Array = EMPTY;
  let createRevision = 0n;
  let modRevision = 0n;
  let version = 0n;
  let lease = 0n;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) key = reader.text();
    else if (field === 2) createRevision = reader.int64();
    else if (field === 3) modRevision = reader.int64();
    else if (field === 4) version = reader.int64();
    else if (field === 5) value = reader.bytes();
    else if (field === 6) lease = reader.int64();
    else reader.skip();
  }
  return { key, value, createRevision, modRevision, version, lease };
}

const EMPTY = new Uint8Array(0);
