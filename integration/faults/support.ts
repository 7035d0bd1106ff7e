import { type Coordinator, type Hold, type KeyValue, prefixSpan } from '@lockkeeper/core';
import { etcdMetric } from '@lockkeeper/testkit';
import { ownTime } from '../support/own-time.ts';

/** What stands below a prefix, first come first. */
export async function keysBelow(coordinator: Coordinator, prefix: string): Promise<readonly KeyValue[]> {
  const sort = { by: 'createRevision', order: 'ascend' } as const;
  const { kvs } = await coordinator.range({ ...prefixSpan(prefix), sort }, { timeoutMs: 10_000 });
  return kvs;
}

/** The queue of a lock: holder and waiters, in their order. */
export function queueOf(
  coordinator: Coordinator,
  namespace: string,
  name: string,
): Promise<readonly KeyValue[]> {
  return keysBelow(coordinator, `${namespace}/lock/${name}/`);
}

/** What a call took, and how it ended; it never rejects. */
export interface Ended<T> {
  readonly value?: T;
  readonly error?: unknown;
  readonly tookMs: number;
}

export async function timed<T>(call: () => Promise<T>): Promise<Ended<T>> {
  const begun = ownTime();
  try {
    return { value: await call(), tookMs: ownTime() - begun };
  } catch (error) {
    return { error, tookMs: ownTime() - begun };
  }
}

/** Notes when a hold's loss was declared, in this process's own time. */
export class LossLog {
  readonly #declared = new Map<Hold, number>();

  watch(hold: Hold): Hold {
    hold.signal.addEventListener('abort', () => this.#declared.set(hold, ownTime()), { once: true });
    return hold;
  }

  /** `undefined`: not declared lost. */
  declaredAt(hold: Hold): number | undefined {
    return this.#declared.get(hold);
  }
}

/** How many transactions this member has answered well. */
export function handledTxns({ endpoint }: { readonly endpoint: string }): Promise<number> {
  return etcdMetric(endpoint, 'grpc_server_handled_total', 'grpc_method="Txn"', 'grpc_code="OK"');
}
