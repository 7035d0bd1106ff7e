import type { Operation, OperationResult, Txn, TxnReply } from '@lockkeeper/core';
import { CANDIDATES, REQUESTS } from './queues.ts';
import type { Trace } from './trace.ts';

/** What a request is, for people who read a trace. */
export interface Described {
  readonly verb: string;
  readonly detail: () => string;
  readonly outcome?: (reply: unknown) => string;
}

/** Tells the protocol's transactions apart by their shape. Nothing but the trace depends on it. */
export function describeTxn(txn: Txn, trace: () => Trace | undefined): Described {
  const members = membersOf(txn);
  if (members === undefined) return describeOne(txn, trace);
  const each = members.map((member) => describeOne(member, trace));
  return {
    verb: 'batch',
    detail: () => each.map(({ verb, detail }) => `${verb} ${detail()}`).join(' + '),
    outcome: (reply) => each.map(({ outcome }, at) => outcome?.(replyOf(reply, at)) ?? 'ok').join(' + '),
  };
}

/** Those of a group commit: transactions whole, and no comparison of its own. */
export function membersOf({ compare, success, failure }: Txn): readonly Txn[] | undefined {
  const members = success.flatMap((operation) => (operation.op === 'txn' ? operation : []));
  const isBatch = compare.length === 0 && failure.length === 0 && members.length === success.length;
  return isBatch && members.length > 1 ? members : undefined;
}

function replyOf(reply: unknown, at: number): TxnReply {
  const { results, revision } = reply as TxnReply;
  return { ...(results[at] as Extract<OperationResult, { op: 'txn' }>), revision };
}

function describeOne(txn: Txn, trace: () => Trace | undefined): Described {
  const [first, second] = txn.success;
  const key = (operation: Operation | undefined): string =>
    operation !== undefined && operation.op !== 'txn' ? (trace()?.key(operation.key) ?? '') : '';
  const nested = first?.op === 'txn' ? first.success[0] : undefined;
  const [ending, cancelling] = nested?.op === 'delete' ? [nested, txn.success.at(-1)] : [first, second];
  if (ending?.op === 'delete') {
    const cancels = cancelling?.op === 'txn' && cancelling.success[0]?.op === 'put';
    const outcome = (reply: unknown) => (isAllDone(reply) ? `deleted, ${revisionOf(reply)}` : 'not there');
    return { verb: cancels ? 'end (and cancel)' : 'end', detail: () => key(ending), outcome };
  }
  // Nested alone, for a comparison that refuses nothing else.
  if (first?.op === 'txn' && txn.compare.length === 0) return describeOne(first, trace);
  if (first?.op === 'txn') {
    const detail = () =>
      txn.success.flatMap((each) => (each.op === 'txn' ? putsOf(each).map(key) : [])).join(', ');
    return { verb: 'enqueue', detail, outcome: outcomeOfEnqueue };
  }
  if (first?.op === 'range') return { verb: 'look', detail: () => txn.success.map(key).join(', ') };
  const verb = first?.op === 'put' ? verbOfPut(first.key) : 'txn';
  const outcome = (reply: unknown) =>
    (reply as TxnReply).succeeded ? `written, ${revisionOf(reply)}` : 'not written';
  return { verb, detail: () => key(first), outcome };
}

function verbOfPut(key: string): string {
  if (key.endsWith('/lineage')) return 'lineage';
  if (key.startsWith(REQUESTS)) return 'ask';
  if (key.startsWith('lockkeeper/semaphore/')) return 'take';
  return key.startsWith('lockkeeper/election/') ? 'proclaim' : 'txn';
}

function putsOf({ success }: Txn): Operation[] {
  return success.filter((operation) => operation.op === 'put' && !operation.key.startsWith(CANDIDATES));
}

function isAllDone(reply: unknown): boolean {
  const { succeeded, results } = reply as TxnReply;
  return succeeded && results.every((result) => result.op !== 'txn' || result.succeeded);
}

function outcomeOfEnqueue(reply: unknown): string {
  const { succeeded, results } = reply as TxnReply;
  if (!succeeded) return 'refused';
  const queues = results.flatMap((result) => (result.op === 'txn' ? result : []));
  if (queues.every((queue) => queue.succeeded)) return `first, ${revisionOf(reply)}`;
  return `queued, ${revisionOf(reply)}`;
}

function revisionOf(reply: unknown): string {
  return `revision ${(reply as TxnReply).revision}`;
}
