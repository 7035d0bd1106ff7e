import { setTimeout as sleep } from 'node:timers/promises';
import { type Coordinator, type Hold, type KeyValue, prefixSpan } from '@lockkeeper/core';

/** Waits for an observed fact. The limit is for a test that would fail anyway: it is far above what is normal. */
export async function until(
  fact: string,
  holds: () => boolean | Promise<boolean>,
  limitMs = 30_000,
): Promise<void> {
  const deadline = performance.now() + limitMs;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${limitMs} ms: ${fact}`);
    await sleep(20);
  }
}

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

/** The sum of a metric's series whose labels contain all of `labels`; 0 where there is none. */
export async function metric(endpoint: string, name: string, ...labels: readonly string[]): Promise<number> {
  const reply = await fetch(`${endpoint}/metrics`, { headers: { connection: 'close' } });
  const lines = (await reply.text()).split('\n');
  const series = lines.filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  const chosen = series.filter((line) => labels.every((label) => line.includes(label)));
  return chosen.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

/** What a call took, and how it ended; it never rejects. */
export interface Ended<T> {
  readonly value?: T;
  readonly error?: unknown;
  readonly tookMs: number;
}

export async function timed<T>(call: () => Promise<T>): Promise<Ended<T>> {
  const begun = performance.now();
  try {
    return { value: await call(), tookMs: performance.now() - begun };
  } catch (error) {
    return { error, tookMs: performance.now() - begun };
  }
}

/** Notes when a hold's loss was declared, on this process's clock. */
export class LossLog {
  readonly #declared = new Map<Hold, number>();

  watch(hold: Hold): Hold {
    hold.signal.addEventListener('abort', () => this.#declared.set(hold, performance.now()), { once: true });
    return hold;
  }

  /** `undefined`: not declared lost. */
  declaredAt(hold: Hold): number | undefined {
    return this.#declared.get(hold);
  }
}

/** How many transactions this member has answered well. */
export function handledTxns({ endpoint }: { readonly endpoint: string }): Promise<number> {
  return metric(endpoint, 'grpc_server_handled_total', 'grpc_method="Txn"', 'grpc_code="OK"');
}
