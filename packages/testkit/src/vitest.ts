// Fixtures for Vitest: `import { test } from '@lockkeeper/testkit/vitest'`. Only what a test asks for is started.
import { randomUUID } from 'node:crypto';
import { connect, type Keeper } from '@lockkeeper/core';
import { test as base, type TestAPI } from 'vitest';
import { type EtcdServer, startEtcd } from './etcd-server.ts';
import { type LateWrite, type LateWriteOptions, lateWrite } from './late-write.ts';
import type { Typed } from './worker/messages.ts';
import { startWorker } from './worker/worker.ts';

export interface LockkeeperFixtures {
  /** An etcd, one for all tests of a file; or that of ETCD_ENDPOINTS. */
  readonly etcd: EtcdServer;
  /** The test's own namespace in it, so that tests of one file do not meet. */
  readonly namespace: string;
  /** A keeper in that namespace with a TTL of 2 s, closed after the test. */
  readonly keeper: Keeper;
  /** `startWorker`; what it started is ended after the test. */
  readonly worker: typeof startWorker;
  /** `lateWrite` in this etcd and namespace. */
  readonly lateWriter: LateWriter;
}

export interface LateWriter {
  run<Read = undefined, Result = unknown>(
    options: LateWriteOptions<Read, Result>,
  ): Promise<LateWrite<Result>>;
}

/** Vitest's `test` with {@link LockkeeperFixtures}; `test.extend` adds your own. */
export const test: TestAPI<LockkeeperFixtures> = base.extend<LockkeeperFixtures>({
  etcd: [
    // biome-ignore lint/correctness/noEmptyPattern: Vitest reads from the pattern what a fixture needs.
    async ({}, use) => {
      await using etcd = await startEtcd();
      await use(etcd);
    },
    { scope: 'file' },
  ],
  // biome-ignore lint/correctness/noEmptyPattern: as above.
  namespace: async ({}, use) => use(`test-${randomUUID()}`),
  keeper: async ({ etcd, namespace }, use) => {
    await using keeper = await connect({ hosts: etcd.endpoint, namespace, ttlMs: 2_000 });
    await use(keeper);
  },
  // biome-ignore lint/correctness/noEmptyPattern: as above.
  worker: async ({}, use) => {
    const workers: AsyncDisposable[] = [];
    await use(
      async <Messages extends Typed, Commands extends Typed>(...args: Parameters<typeof startWorker>) => {
        const worker = await startWorker<Messages, Commands>(...args);
        workers.push(worker);
        return worker;
      },
    );
    await Promise.all(workers.map((worker) => worker[Symbol.asyncDispose]()));
  },
  lateWriter: async ({ etcd, namespace }, use) => {
    await use({ run: (options) => lateWrite({ etcd, namespace, ...options }) });
  },
});
