import { LockkeeperError } from '../../errors.ts';
import type { KeySpan, Operation, Txn } from '../coordinator.ts';
import { type ByteKey, type ByteSpan, END_OF_KEYS, spanIncludes, toByteKey, toByteSpan } from './byte-key.ts';

/** etcd's default `--max-txn-ops`. */
const MAX_OPERATIONS = 128;
/** etcd's default `--max-request-bytes`. */
const MAX_REQUEST_BYTES = 1.5 * 1024 * 1024;

/** Refuses what etcd refuses by the look of a transaction alone, in both branches, whichever will run. */
export function checkTxn(txn: Txn): void {
  const bytes = checkLists(txn, MAX_OPERATIONS);
  if (bytes > MAX_REQUEST_BYTES) {
    throw new LockkeeperError(
      'limit-exceeded',
      `transaction: keys and values take ${bytes} bytes; at most ${MAX_REQUEST_BYTES} fit a request`,
    );
  }
  checkOverlaps(txn.success);
  checkOverlaps(txn.failure);
}

export function checkKey({ key }: KeySpan): void {
  if (key === '') throw new LockkeeperError('invalid-request', 'key is empty');
}

/**
 * The longest list counts against the limit, and what it leaves is the limit of the lists inside.
 * Returns the bytes of all keys and values, which is a little less than the request takes on the wire.
 */
function checkLists(txn: Txn, limit: number): number {
  const longest = Math.max(txn.compare.length, txn.success.length, txn.failure.length);
  if (longest > limit) {
    throw new LockkeeperError(
      'limit-exceeded',
      `transaction: a list of ${longest} where at most ${limit} of ${MAX_OPERATIONS} operations are left`,
    );
  }
  let bytes = 0;
  for (const compare of txn.compare) {
    checkKey(compare);
    bytes += sizeOfSpan(compare) + (compare.target === 'value' ? sizeOf(compare.to) : 0);
  }
  for (const operation of [...txn.success, ...txn.failure]) {
    if (operation.op === 'txn') {
      bytes += checkLists(operation, limit - longest);
    } else {
      checkKey(operation);
      bytes += sizeOfSpan(operation) + (operation.op === 'put' ? sizeOf(operation.value) : 0);
    }
  }
  return bytes;
}

function sizeOfSpan({ key, rangeEnd = '' }: KeySpan): number {
  return sizeOf(key) + sizeOf(rangeEnd);
}

function sizeOf(text: string | Uint8Array): number {
  return typeof text === 'string' ? Buffer.byteLength(text) : text.byteLength;
}

interface Touched {
  readonly puts: Set<ByteKey>;
  readonly deletes: ByteSpan[];
}

/**
 * No key may be put twice, nor be put and deleted at one level; of nested transactions a later one may
 * not put what an earlier one may delete. (It may delete what an earlier one puts: etcd lets that pass,
 * as it does a delete without an upper end.) Two branches of one transaction may put the same key, since
 * only one of them runs.
 */
function checkOverlaps(operations: readonly Operation[]): Touched {
  const puts = new Set<ByteKey>();
  const deletes: ByteSpan[] = [];
  const addPut = (key: ByteKey) => {
    if (puts.has(key) || deletes.some((span) => spanIncludes(span, key))) {
      const shown = JSON.stringify(Buffer.from(key, 'latin1').toString('utf8'));
      throw new LockkeeperError('invalid-request', `transaction: key ${shown} is written twice`);
    }
    puts.add(key);
  };

  for (const operation of operations) {
    if (operation.op === 'delete' && operation.rangeEnd !== END_OF_KEYS) deletes.push(toByteSpan(operation));
  }
  for (const operation of operations) {
    if (operation.op !== 'txn') continue;
    const success = checkOverlaps(operation.success);
    const failure = checkOverlaps(operation.failure);
    for (const key of new Set([...success.puts, ...failure.puts])) addPut(key);
    deletes.push(...success.deletes, ...failure.deletes);
  }
  for (const operation of operations) {
    if (operation.op === 'put') addPut(toByteKey(operation.key));
  }
  return { puts, deletes };
}
