import type { Compare, KeyValue, Operation, Txn } from '../coordinator.ts';
import { toByteSpan } from './byte-key.ts';
import type { KeyTable } from './key-table.ts';

/** A transaction whose compares, nested ones too, have been decided on the state before it. */
export interface TxnPlan {
  readonly succeeded: boolean;
  readonly steps: readonly TxnStep[];
}

export type TxnStep = Exclude<Operation, { op: 'txn' }> | { readonly op: 'txn'; readonly plan: TxnPlan };

export function planTxn(txn: Txn, keys: KeyTable): TxnPlan {
  const succeeded = txn.compare.every((compare) => compareHolds(compare, keys));
  const branch = succeeded ? txn.success : txn.failure;
  return {
    succeeded,
    steps: branch.map((operation) =>
      operation.op === 'txn' ? { op: 'txn', plan: planTxn(operation, keys) } : operation,
    ),
  };
}

/** Every put that the plan will make. */
export function* putsOf(plan: TxnPlan): Generator<Extract<TxnStep, { op: 'put' }>, void> {
  for (const step of plan.steps) {
    if (step.op === 'put') yield step;
    else if (step.op === 'txn') yield* putsOf(step.plan);
  }
}

/** A span without keys compares like one absent key: all numbers 0, and no value to compare with. */
function compareHolds(compare: Compare, keys: KeyTable): boolean {
  let found = false;
  for (const [, kv] of keys.scan(toByteSpan(compare))) {
    found = true;
    if (!holds(compare, kv)) return false;
  }
  return found || (compare.target !== 'value' && matches(compare, Number(0n - compare.to)));
}

function holds(compare: Compare, kv: KeyValue): boolean {
  if (compare.target === 'value') {
    const { to } = compare;
    return matches(compare, Buffer.compare(kv.value, typeof to === 'string' ? Buffer.from(to) : to));
  }
  return matches(compare, Number(kv[compare.target] - compare.to));
}

/** `order`: below, at or above 0, as the stored value is below, at or above the one compared with. */
function matches({ is }: Compare, order: number): boolean {
  switch (is) {
    case '=':
      return order === 0;
    case '!=':
      return order !== 0;
    case '<':
      return order < 0;
    case '>':
      return order > 0;
  }
}
