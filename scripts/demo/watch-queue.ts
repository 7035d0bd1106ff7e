// The lock's keys as the coordinator reports their comings and goings: the observation behind the lease's lane.
import { type Coordinator, prefixSpan } from '@lockkeeper/core';
import type { RecordFact } from './world.ts';

export interface QueueWatch {
  /** Resolves when the first contender's key was removed; rejects when the watch ends before. */
  readonly firstRemoved: Promise<void>;
  close(): void;
}

/** Watches from now on. */
export async function watchQueue(
  coordinator: Coordinator,
  namespace: string,
  lock: string,
  record: RecordFact,
): Promise<QueueWatch> {
  const queue = prefixSpan(`${namespace}/lock/${lock}/`);
  const { revision } = await coordinator.range({ ...queue, limit: 1, keysOnly: true });
  const contenders = new Map<string, { of: string; revision: string }>();
  let settle: { resolve: () => void; reject: (error: Error) => void } | undefined;
  const firstRemoved = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject };
  });
  // Whoever waits for it still gets the rejection.
  firstRemoved.catch(() => {});

  const watch = coordinator.watch(
    { ...queue, startRevision: revision + 1n },
    {
      onEvents(events) {
        for (const event of events) {
          if (event.type === 'put') {
            const { key, value, createRevision } = event.kv;
            const contender = { of: identityIn(value), revision: `${createRevision}` };
            const behind = [...contenders.values()].at(-1)?.of;
            contenders.set(key, contender);
            record({ who: 'coordinator', kind: 'enqueued', ...contender, behind });
          } else {
            const contender = contenders.get(event.key);
            contenders.delete(event.key);
            if (contender !== undefined) record({ who: 'coordinator', kind: 'removed', ...contender });
            settle?.resolve();
          }
        }
      },
      onEnd: (error) => settle?.reject(error),
    },
  );
  return { firstRemoved, close: () => watch.close() };
}

/** Contenders of the demo call themselves A and B; see `identity` of `connect()`. */
function identityIn(value: Uint8Array): string {
  const { identity } = JSON.parse(Buffer.from(value).toString('utf8')) as { identity?: string };
  return identity ?? '?';
}
