import { expect, test } from 'vitest';
import { type CoordinatorSuite, keysOf, put } from './suite.ts';

/** Which keys a read finds, in which order, and what of them. */
export function ranges(suite: CoordinatorSuite): void {
  const { all, commit, keysLeft, under } = suite;

  test('a single key, or a span whose end is excluded, in byte order', async () => {
    // U+FF5E is below U+1F512 in UTF-8, above it in UTF-16.
    const keys = ['0', 'A', 'a', 'a/', 'aa', 'b', 'é', '\uFF5E', '\u{1F512}'].map(under);
    await commit(...keys.toReversed().map((key) => put(key)));
    expect(await keysLeft()).toEqual(keys);
    expect(keysOf(await suite.coordinator.range({ key: under('a') }))).toEqual([under('a')]);
    expect(keysOf(await suite.coordinator.range({ key: under('a'), rangeEnd: under('b') }))).toEqual(
      ['a', 'a/', 'aa'].map(under),
    );
    expect(await suite.coordinator.range({ key: under('b'), rangeEnd: under('a') })).toMatchObject({
      count: 0,
      kvs: [],
    });
    expect(await suite.coordinator.range({ key: under('b'), rangeEnd: under('b') })).toMatchObject({
      count: 0,
      kvs: [],
    });
    expect(keysOf(await suite.coordinator.range({ key: under('b'), rangeEnd: '\0' })).slice(0, 2)).toEqual(
      ['b', 'é'].map(under),
    );
  });

  test('limit, sort, keys only, oldest creations; the count ignores them all', async () => {
    await commit(put(under('c')));
    const second = await commit(put(under('a')));
    await commit(put(under('b')));
    await commit(put(under('c')));
    const names = async (rest: object) => {
      const reply = await suite.coordinator.range({ ...all(), ...rest });
      expect(reply.count).toBe(3);
      return keysOf(reply)
        .map((key) => key.slice(suite.prefix.length))
        .join('');
    };
    expect(await names({})).toBe('abc');
    expect(await names({ limit: 2 })).toBe('ab');
    expect(await names({ limit: 0 })).toBe('abc');
    expect(await names({ sort: { by: 'key', order: 'ascend' } })).toBe('abc');
    expect(await names({ sort: { by: 'key', order: 'descend' }, limit: 2 })).toBe('cb');
    expect(await names({ sort: { by: 'createRevision', order: 'ascend' } })).toBe('cab');
    expect(await names({ sort: { by: 'createRevision', order: 'descend' }, limit: 1 })).toBe('b');
    expect(await names({ sort: { by: 'modRevision', order: 'ascend' } })).toBe('abc');
    expect(await names({ sort: { by: 'modRevision', order: 'descend' } })).toBe('cba');
    const maxCreateRevision = second.revision;
    expect(await names({ maxCreateRevision })).toBe('ac');
    expect(await names({ maxCreateRevision, limit: 1 })).toBe('a');
    expect(
      await names({ maxCreateRevision, limit: 2, sort: { by: 'createRevision', order: 'descend' } }),
    ).toBe('ac');
    expect(await names({ maxCreateRevision: 1n })).toBe('');

    const { kvs } = await suite.coordinator.range({ ...all(), keysOnly: true });
    expect(kvs.map(({ value }) => value.length)).toEqual([0, 0, 0]);
    expect(kvs[2]).toMatchObject({ key: under('c'), version: 2n });
  });

  test('keys created in one transaction tie, and keep their byte order either way', async () => {
    await commit(...['c', 'a', 'b'].map((key) => put(under(key))));
    for (const order of ['ascend', 'descend'] as const) {
      const reply = await suite.coordinator.range({ ...all(), sort: { by: 'createRevision', order } });
      expect(keysOf(reply)).toEqual(['a', 'b', 'c'].map(under));
    }
  });

  test('values are bytes, the empty one too, and are copied on their way in and out', async () => {
    const value = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const written = commit(put(under('bytes'), value), put(under('empty'), ''), put(under('text'), 'ключ🔒'));
    value.fill(0);
    await written;
    const read = async () => (await suite.coordinator.range(all())).kvs.map((kv) => kv.value);
    const [first] = await read();
    expect(Array.from(first ?? [])).toEqual(Array.from({ length: 256 }, (_, byte) => byte));
    first?.fill(0);
    expect((await read()).map((bytes) => Buffer.from(bytes).toString('hex'))).toEqual([
      Buffer.from(Uint8Array.from({ length: 256 }, (_, byte) => byte)).toString('hex'),
      '',
      Buffer.from('ключ🔒').toString('hex'),
    ]);
  });
}
