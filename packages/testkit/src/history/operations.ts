import type { FailEvent, History, InvokeEvent, OkEvent, UnknownEvent } from './history.ts';

/** One operation from its invocation to its end, with the places of both in the history. */
export interface PairedOperation {
  readonly invoke: InvokeEvent;
  readonly invokedAt: number;
  /** None: it never ended, so its outcome is unknown. */
  readonly end: OkEvent | FailEvent | UnknownEvent | undefined;
  /** Infinite without an end. */
  readonly endedAt: number;
}

/** An operation that had its effect. */
export type AcknowledgedOperation = PairedOperation & { readonly end: OkEvent };

export function isAcknowledged(operation: PairedOperation): operation is AcknowledgedOperation {
  return operation.end?.type === 'ok';
}

/**
 * The operations of a history, in the order of their invocations. An end whose invocation is not there is left
 * out; an operation that is invoked again under the same number, as a process that was started anew may do, has
 * no end.
 */
export function pairOperations(history: History): PairedOperation[] {
  const operations: PairedOperation[] = [];
  const open = new Map<string, number>();
  for (const [at, event] of history.entries()) {
    if (event.type === 'info') continue;
    const key = `${event.op} ${event.process}`;
    if (event.type === 'invoke') {
      open.set(key, operations.length);
      operations.push({ invoke: event, invokedAt: at, end: undefined, endedAt: Number.POSITIVE_INFINITY });
      continue;
    }
    const index = open.get(key);
    const operation = index === undefined ? undefined : operations[index];
    if (index === undefined || operation === undefined) continue;
    operations[index] = { ...operation, end: event, endedAt: at };
    open.delete(key);
  }
  return operations;
}

/** Those that have a key, by it, in their order. */
export function groupOperations(
  operations: readonly PairedOperation[],
  keyOf: (invoke: InvokeEvent) => string | undefined,
): Map<string, PairedOperation[]> {
  const groups = new Map<string, PairedOperation[]>();
  for (const operation of operations) {
    const key = keyOf(operation.invoke);
    if (key === undefined) continue;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [operation]);
    else group.push(operation);
  }
  return groups;
}
