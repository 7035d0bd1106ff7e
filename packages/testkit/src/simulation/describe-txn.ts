import type { Operation, Txn, TxnReply } from '@lockkeeper/core';
import type { Trace } from './trace.ts';

/** What a request is, for people who read a trace. */
export interface Described {
  readonly verb: string;
  readonly detail: () => string;
  readonly outcome?: (reply: unknown) => string;
}

/** Tells the protocol's transactions apart by their shape. Nothing but the trace depends on it. */
export function describeTxn(txn: Txn, trace: () => Trace | undefined): Described {
  const [first, second] = txn.success;
  const key = (operation: Operation | undefined): string =>
    operation !== undefined && operation.op !== 'txn' ? (trace()?.key(operation.key) ?? '') : '';
  if (first?.op === 'txn') {
    return { verb: 'enqueue', detail: () => key(lastPut(first)), outcome: outcomeOfEnqueue };
  }
  if (first?.op === 'delete') {
    const verb = second?.op === 'put' ? 'end (and cancel)' : 'end';
    const outcome = (reply: unknown) =>
      (reply as TxnReply).succeeded ? `deleted, ${revisionOf(reply)}` : 'not there';
    return { verb, detail: () => key(first), outcome };
  }
  const verb = first?.op === 'put' && first.key.endsWith('/lineage') ? 'lineage' : 'txn';
  const outcome = (reply: unknown) =>
    (reply as TxnReply).succeeded ? `written, ${revisionOf(reply)}` : 'not written';
  return { verb, detail: () => key(first), outcome };
}

function lastPut({ success }: Txn): Operation | undefined {
  return success.find((operation) => operation.op === 'put');
}

function outcomeOfEnqueue(reply: unknown): string {
  const { succeeded, results } = reply as TxnReply;
  if (!succeeded) return 'refused';
  const [nested] = results;
  if (nested?.op === 'txn' && nested.succeeded) return `first, ${revisionOf(reply)}`;
  return nested?.op === 'txn' && nested.results.length > 1 ? `queued, ${revisionOf(reply)}` : 'busy';
}

function revisionOf(reply: unknown): string {
  return `revision ${(reply as TxnReply).revision}`;
}
