import { expect, test } from 'vitest';
import type { KeySpan } from '../coordinator.ts';
import { KeySpans } from './key-spans.ts';

const span = (key: string, rangeEnd?: string): KeySpan => ({ key, rangeEnd });

test('keys, ranges, and the end of all keys', () => {
  const spans = new KeySpans();
  expect(spans.overlaps(span('a', '\0'))).toBe(false);
  spans.add(span('d'));
  spans.add(span('m', 'p'));
  expect(['c', 'd', 'd0', 'l', 'm', 'o', 'p'].filter((key) => spans.overlaps(span(key)))).toEqual([
    'd',
    'm',
    'o',
  ]);
  expect(spans.overlaps(span('a', 'd'))).toBe(false);
  expect(spans.overlaps(span('a', 'd0'))).toBe(true);
  expect(spans.overlaps(span('e', 'm'))).toBe(false);
  expect(spans.overlaps(span('e', '\0'))).toBe(true);
  spans.add(span('x', '\0'));
  expect(spans.overlaps(span('zzz'))).toBe(true);
  // etcd takes an empty end for none.
  expect(spans.overlaps(span('c', ''))).toBe(false);
});

test('agrees with comparing each with each, whatever overlaps what', () => {
  let seed = 7;
  const below = (limit: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * limit);
  };
  const letters = 'abcdefgh';
  const randomSpan = (): KeySpan => {
    const from = below(letters.length);
    const key = letters[from] as string;
    const kind = below(10);
    if (kind < 5) return { key };
    if (kind === 9) return { key, rangeEnd: '\0' };
    return { key, rangeEnd: letters[from + 1 + below(letters.length - from - 1)] ?? 'i' };
  };
  const keysOf = ({ key, rangeEnd }: KeySpan): string[] =>
    [...letters].filter((each) =>
      rangeEnd === undefined ? each === key : each >= key && (rangeEnd === '\0' || each < rangeEnd),
    );
  for (let round = 0; round < 2_000; round += 1) {
    const spans = new KeySpans();
    const taken = new Set<string>();
    for (let step = 0; step < 6; step += 1) {
      const next = randomSpan();
      const keys = keysOf(next);
      expect(spans.overlaps(next)).toBe(keys.some((key) => taken.has(key)));
      spans.add(next);
      for (const key of keys) taken.add(key);
    }
  }
});
