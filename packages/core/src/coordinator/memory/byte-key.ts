import type { KeySpan } from '../coordinator.ts';

declare const byteKey: unique symbol;

/**
 * A key as its UTF-8 bytes, one character a byte, so that `<` is etcd's order. JavaScript's own strings
 * order by UTF-16 units, which puts U+1F512 before U+FF5E; UTF-8 puts it behind.
 */
export type ByteKey = string & { readonly [byteKey]: true };

export function toByteKey(key: string): ByteKey {
  return Buffer.from(key, 'utf8').toString('latin1') as ByteKey;
}

/** The keys from `from` (included) to `to` (excluded); no `to`: all that follow. */
export interface ByteSpan {
  readonly from: ByteKey;
  readonly to: ByteKey | undefined;
}

/** As a `rangeEnd`: all keys that follow. */
export const END_OF_KEYS = '\0';

/** etcd's reading of a span: no `rangeEnd`, or an empty one, is the single key. */
export function toByteSpan({ key, rangeEnd }: KeySpan): ByteSpan {
  const from = toByteKey(key);
  if (rangeEnd === undefined || rangeEnd === '') return { from, to: `${from}\0` as ByteKey };
  return { from, to: rangeEnd === END_OF_KEYS ? undefined : toByteKey(rangeEnd) };
}

export function spanIncludes({ from, to }: ByteSpan, key: ByteKey): boolean {
  return from <= key && (to === undefined || key < to);
}
