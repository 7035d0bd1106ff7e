import { type Compare, prefixSpan } from '@lockkeeper/core';
import { expect, test } from 'vitest';
import { absent, type CoordinatorSuite, get, present, put, run } from './suite.ts';

/** When a condition holds, for a key, for none, and for a span. */
export function compares(suite: CoordinatorSuite): void {
  const { commit, grantLease, keysLeft, under } = suite;

  const holds = async (compare: Compare) =>
    (await run(suite.coordinator, [compare], [get(under('a'))])).succeeded;

  test('an absent key has 0 for every number, and no value at all', async () => {
    const key = under('absent');
    for (const target of ['createRevision', 'modRevision', 'version', 'lease'] as const) {
      expect(await holds({ key, target, is: '=', to: 0n })).toBe(true);
      expect(await holds({ key, target, is: '!=', to: 0n })).toBe(false);
      expect(await holds({ key, target, is: '<', to: 1n })).toBe(true);
      expect(await holds({ key, target, is: '>', to: 0n })).toBe(false);
    }
    for (const is of ['=', '!=', '<', '>'] as const) {
      expect(await holds({ key, target: 'value', is, to: '' })).toBe(false);
      expect(await holds({ key, target: 'value', is, to: 'x' })).toBe(false);
    }
  });

  test('each operator on each target of a present key', async () => {
    const lease = await grantLease();
    const key = under('a');
    await commit(put(key, 'l'));
    const { revision } = await commit(put(key, 'm', lease));
    const numbers = { createRevision: revision - 1n, modRevision: revision, version: 2n, lease };
    for (const [target, at] of Object.entries(numbers) as [keyof typeof numbers, bigint][]) {
      const outcomes = [at - 1n, at, at + 1n].map((to) =>
        Promise.all((['<', '=', '>', '!='] as const).map((is) => holds({ key, target, is, to }))),
      );
      expect(await Promise.all(outcomes), target).toEqual([
        [false, false, true, true],
        [false, true, false, false],
        [true, false, false, true],
      ]);
    }
    const outcomes = ['l', 'm', 'ma', 'n'].map((to) =>
      Promise.all((['<', '=', '>', '!='] as const).map((is) => holds({ key, target: 'value', is, to }))),
    );
    expect(await Promise.all(outcomes)).toEqual([
      [false, false, true, true],
      [false, true, false, false],
      [true, false, false, true],
      [true, false, false, true],
    ]);
  });

  test('values compare as bytes', async () => {
    const key = under('a');
    await commit(put(key, Uint8Array.of(0x7f, 0x00, 0xff)));
    expect(await holds({ key, target: 'value', is: '=', to: Uint8Array.of(0x7f, 0x00, 0xff) })).toBe(true);
    expect(await holds({ key, target: 'value', is: '<', to: Uint8Array.of(0x80) })).toBe(true);
    expect(await holds({ key, target: 'value', is: '>', to: Uint8Array.of(0x7f, 0x00) })).toBe(true);
  });

  test('over a span it must hold for every key, and an empty span is like one absent key', async () => {
    const span = prefixSpan(under('q/'));
    const empty: Compare = { ...span, target: 'createRevision', is: '=', to: 0n };
    expect(await holds(empty)).toBe(true);
    expect(await holds({ ...span, target: 'createRevision', is: '>', to: 5n })).toBe(false);
    expect(await holds({ ...span, target: 'value', is: '!=', to: 'x' })).toBe(false);

    const first = await commit(put(under('q/1'), 'x'));
    expect(await holds(empty)).toBe(false);
    await commit(put(under('q/2'), 'y'));
    const { revision } = first;
    expect(await holds({ ...span, target: 'createRevision', is: '=', to: revision })).toBe(false);
    expect(await holds({ ...span, target: 'createRevision', is: '>', to: revision - 1n })).toBe(true);
    expect(await holds({ ...span, target: 'value', is: '<', to: 'z' })).toBe(true);
    expect(await holds({ ...span, target: 'value', is: '<', to: 'y' })).toBe(false);
  });

  test('all must hold, else the failure branch runs', async () => {
    await commit(put(under('a')));
    const compare = [present(under('a')), absent(under('b'))];
    expect(await run(suite.coordinator, compare, [put(under('c'))])).toMatchObject({ succeeded: true });
    expect(
      await run(suite.coordinator, [...compare, absent(under('c'))], [], [put(under('d')), get(under('c'))]),
    ).toMatchObject({ succeeded: false, results: [{ op: 'put' }, { op: 'range', count: 1 }] });
    expect(await keysLeft()).toEqual(['a', 'c', 'd'].map(under));
  });
}
