import type { Operation, Txn } from '@lockkeeper/core';
import { expect, test } from 'vitest';
import {
  absent,
  bytes,
  type CoordinatorSuite,
  get,
  nested,
  present,
  put,
  rejection,
  remove,
  removeSpan,
  run,
  startWatch,
} from './suite.ts';

/** What one transaction sees and does, and which are refused. */
export function transactions(suite: CoordinatorSuite): void {
  const { all, commit, keysLeft, storeRevision, under } = suite;

  test('nested compares see the state before the whole transaction, nested ranges what came before them', async () => {
    const reply = await commit(get(under('a')), put(under('a'), 'new'), get(under('a')), {
      op: 'txn',
      compare: [absent(under('a'))],
      success: [
        get(under('a')),
        { op: 'txn', compare: [present(under('a'))], success: [], failure: [get(under('a'))] },
      ],
      failure: [],
    });
    const value = [{ key: under('a'), value: bytes('new'), modRevision: reply.revision }];
    expect(reply.results).toMatchObject([
      { op: 'range', count: 0 },
      { op: 'put' },
      { op: 'range', kvs: value },
      {
        op: 'txn',
        succeeded: true,
        results: [
          { op: 'range', kvs: value },
          { op: 'txn', succeeded: false, results: [{ op: 'range', kvs: value }] },
        ],
      },
    ]);
  });

  test('the one-transaction enqueue: held, then queued behind the holder', async () => {
    const enqueue = (own: string): Txn => ({
      compare: [absent(own)],
      success: [
        {
          op: 'txn',
          compare: [{ ...all(), target: 'createRevision', is: '=', to: 0n }],
          success: [put(own)],
          failure: [
            {
              op: 'range',
              ...all(),
              limit: 1,
              keysOnly: true,
              sort: { by: 'createRevision', order: 'descend' },
            },
            put(own),
          ],
        },
      ],
      failure: [get(own)],
    });
    const first = await suite.coordinator.txn(enqueue(under('1')));
    expect(first.results).toMatchObject([{ op: 'txn', succeeded: true, results: [{ op: 'put' }] }]);
    const second = await suite.coordinator.txn(enqueue(under('2')));
    expect(second.results).toMatchObject([
      {
        op: 'txn',
        succeeded: false,
        results: [
          { op: 'range', count: 1, kvs: [{ key: under('1'), createRevision: first.revision }] },
          { op: 'put' },
        ],
      },
    ]);
    expect(second.revision).toBe(first.revision + 1n);
    const again = await suite.coordinator.txn(enqueue(under('2')));
    expect(again).toMatchObject({
      succeeded: false,
      revision: second.revision,
      results: [{ kvs: [{ createRevision: second.revision }] }],
    });
  });

  test('deletes count what they deleted, once', async () => {
    await commit(put(under('a')), put(under('b')), put(under('c')));
    const reply = await commit(remove(under('b')), removeSpan(all()), removeSpan(all()), get(under('a')));
    expect(reply.results).toMatchObject([{ deleted: 1 }, { deleted: 2 }, { deleted: 0 }, { count: 0 }]);
  });

  test('a nested put may be deleted by a later nested transaction, all in one revision', async () => {
    const seen = await startWatch(suite.coordinator, all(), (await storeRevision()) + 1n);
    const reply = await commit(nested([put(under('a'))]), nested([remove(under('a'))]));
    expect(reply.results).toMatchObject([{ results: [{ op: 'put' }] }, { results: [{ deleted: 1 }] }]);
    expect(await seen.next(2)).toMatchObject([
      { type: 'put', kv: { key: under('a'), modRevision: reply.revision } },
      { type: 'delete', key: under('a'), modRevision: reply.revision },
    ]);
    expect(await keysLeft()).toEqual([]);
  });

  test('a key written twice is refused, in whichever branch, and nothing is applied', async () => {
    const twice = [put(under('a')), put(under('a'))];
    const refused: [string, readonly Operation[], readonly Operation[]][] = [
      ['two puts', twice, []],
      ['two puts in the branch that would not run', [put(under('b'))], twice],
      ['put and delete', [remove(under('a')), put(under('a'))], []],
      ['put under a deleted span', [put(under('a')), removeSpan(all())], []],
      ['put and nested put', [put(under('a')), nested([put(under('a'))])], []],
      ['two nested puts', [nested([put(under('a'))]), nested([put(under('a'))])], []],
      ['nested delete, then nested put', [nested([remove(under('a'))]), nested([put(under('a'))])], []],
    ];
    for (const [what, success, failure] of refused) {
      const error = await rejection(suite.coordinator.txn({ compare: [], success, failure }));
      expect(error, what).toMatchObject({ code: 'invalid-request', outcome: 'rejected' });
    }
    expect(await keysLeft()).toEqual([]);
  });

  test('two branches, only one of which runs, may put the same key', async () => {
    const either: Operation = {
      op: 'txn',
      compare: [absent(under('a'))],
      success: [put(under('a'), 'then')],
      failure: [put(under('a'), 'else')],
    };
    await commit(either);
    await run(suite.coordinator, [], [either], [put(under('a'))]);
    expect((await suite.coordinator.range({ key: under('a') })).kvs).toMatchObject([
      { value: bytes('else') },
    ]);
  });

  test('an empty key is refused', async () => {
    const empty = { code: 'invalid-request', outcome: 'rejected' };
    expect(await rejection(suite.coordinator.range({ key: '' }))).toMatchObject(empty);
    expect(await rejection(commit(put('')))).toMatchObject(empty);
    expect(await rejection(commit(remove('')))).toMatchObject(empty);
    expect(await rejection(run(suite.coordinator, [absent('')], []))).toMatchObject(empty);
  });

  test('128 operations a list, of which the nested lists get what the outer one leaves', async () => {
    const puts = (count: number) => Array.from({ length: count }, (_, index) => put(under(`n/${index}`)));
    expect(await commit(...puts(128))).toMatchObject({ succeeded: true });
    expect(await commit(nested(puts(127)))).toMatchObject({ succeeded: true });
    const tooMany = { code: 'limit-exceeded', outcome: 'rejected' };
    expect(await rejection(commit(...puts(129)))).toMatchObject(tooMany);
    expect(await rejection(run(suite.coordinator, [], [], puts(129)))).toMatchObject(tooMany);
    expect(await rejection(commit(nested(puts(128))))).toMatchObject(tooMany);
    const compares = Array.from({ length: 129 }, () => absent(under('a')));
    expect(await rejection(run(suite.coordinator, compares, []))).toMatchObject(tooMany);
  });

  test('a request above 1.5 MiB is refused', async () => {
    expect(await commit(put(under('big'), new Uint8Array(1_400 * 1_024)))).toMatchObject({
      succeeded: true,
    });
    const error = await rejection(commit(put(under('bigger'), new Uint8Array(1_600 * 1_024))));
    expect(error).toMatchObject({ code: 'limit-exceeded', outcome: 'rejected' });
    expect(await keysLeft()).toEqual([under('big')]);
    await commit(remove(under('big')));
  });
}
