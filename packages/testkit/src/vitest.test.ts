import { fencedTxn } from '@lockkeeper/core';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { describe, expect } from 'vitest';
import type { EchoCommand, EchoMessage } from './fixtures/echo-worker.ts';
import { processState } from './process-table.ts';
import { test } from './vitest.ts';

const ECHO = new URL('./fixtures/echo-worker.ts', import.meta.url);
const endpoints = new Set<string>();
const namespaces = new Set<string>();
let workerPid = 0;

const withoutServers = test.extend<{ etcd: never }>({
  etcd: () => {
    throw new Error('nobody asked for an etcd');
  },
});

describe('fixtures', () => {
  withoutServers('start nothing that is not asked for', async ({ worker }) => {
    await worker(ECHO);
  });

  test.for([1, 2])(
    'one etcd for the file, a namespace for each test: %i',
    async (n, { etcd, keeper, namespace }) => {
      endpoints.add(etcd.endpoint);
      namespaces.add(namespace);
      expect([endpoints.size, namespaces.size]).toEqual([1, n]);
      await using hold = await keeper.lock('x').acquire();
      expect(hold.standing).toBe('held');
      const { kvs } = await keeper.coordinator.range({
        key: `${namespace}/lock/x/`,
        rangeEnd: `${namespace}/lock/x0`,
      });
      expect(kvs).toHaveLength(1);
    },
  );

  test('a worker that the test leaves running', async ({ worker }) => {
    const echo = await worker<EchoMessage, EchoCommand>(ECHO);
    workerPid = echo.pid;
    expect((await echo.next('ready')).args).toEqual([]);
  });

  test('is gone after it', () => {
    expect(processState(workerPid)).toBe('gone');
  });
});

describe('lateWriter', () => {
  test('shows a late write accepted where nothing checks the token', async ({ lateWriter }) => {
    let account = '';
    const { late, newer } = await lateWriter.run({
      lock: 'account',
      read: () => account,
      write: (hold, read) => {
        hold.assertHeld();
        account = `${read}${hold.token.revision} `;
        return account;
      },
    });
    expect(late).toMatchObject({ outcome: 'accepted', result: `${late.token.revision} ` });
    expect(late.token.revision).toBeLessThan(newer.token.revision);
    expect(account).not.toContain(newer.result);
  });

  test('and refused where a guard does', async ({ lateWriter }) => {
    let account = '';
    const guard = memoryGuard({ resource: 'account' });
    const { late, newer } = await lateWriter.run({
      lock: 'account',
      claims: [guard],
      read: () => account,
      write: (hold, read) =>
        guard.run(hold.token, () => {
          account = `${read}${hold.token.revision} `;
        }),
    });
    expect(late).toMatchObject({ outcome: 'refused', error: { code: 'stale-token' } });
    expect(account).toBe(`${newer.token.revision} `);
  });

  test('and by etcd, where the write is one of its transactions', async ({ lateWriter, keeper }) => {
    const key = 'late-writer/account';
    const { late, newer } = await lateWriter.run({
      lock: 'account',
      write: (hold) => fencedTxn(hold).put(key, String(hold.token)).commit(),
    });
    expect(late).toMatchObject({ outcome: 'refused', error: { code: 'lost' } });
    const { kvs } = await keeper.coordinator.range({ key });
    expect(kvs.map(({ value }) => new TextDecoder().decode(value))).toEqual([String(newer.token)]);
  });

  test('fails with what the newer holder is told', async ({ lateWriter }) => {
    const run = lateWriter.run({
      lock: 'account',
      write: () => Promise.reject(new Error('the storage is down')),
    });
    await expect(run).rejects.toThrow('the storage is down');
  });
});
