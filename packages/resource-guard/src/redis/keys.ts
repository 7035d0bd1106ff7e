// Redis Cluster puts a key where its hash tag says: the text between the first `{` and the next `}`, unless
// that is empty. One script may touch one slot, so the guard's record and all keys of an effect share one tag.
import { GuardError } from '@lockkeeper/fencing';
import { describe, invalid } from '../options.ts';

/** What decides on a key's slot. */
export function hashTag(key: string): string {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

/** A resource's name as a tag: braces would end it, and `%` marks what was replaced. */
export function tagOf(resource: string): string {
  return resource.replace(/[%{}]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

export function checkTag(value: unknown, fallback: string): string {
  if (value === undefined) return fallback;
  if (typeof value === 'string' && /^[^{}\0]+$/.test(value) && Buffer.byteLength(value) <= 1024) return value;
  throw invalid('hashTag', value, 'expected text without braces, at most 1,024 bytes of UTF-8');
}

export function checkPrefix(value: unknown): string {
  if (value === undefined) return 'lockkeeper:guard:';
  if (typeof value === 'string' && !/[{}\0]/.test(value) && value.length <= 200) return value;
  throw invalid('prefix', value, 'expected text without braces, at most 200 characters');
}

/** Which keys an effect may use. */
export interface KeyRule {
  readonly resource: string;
  /** The guard's record. */
  readonly record: string;
  /** `undefined`: any key, on a server that is no cluster. */
  readonly tag: string | undefined;
  /** The client puts a prefix before keys, which only those among the script's KEYS get. */
  readonly fromKeys: boolean;
}

export function checkKey(key: unknown, rule: KeyRule): string {
  if (typeof key !== 'string' || key === '')
    throw wrong(`key is ${describe(key)}; expected a non-empty string`, rule);
  if (key === rule.record) throw wrong(`key is ${describe(key)}; that is the guard's own record`, rule);
  if (rule.tag !== undefined && hashTag(key) !== rule.tag) {
    const ways = `expected a key with the hash tag {${rule.tag}}, as guard.key("name") makes, or set hashTag`;
    throw wrong(`key is ${describe(key)}, in another hash slot than the guard's record; ${ways}`, rule);
  }
  return key;
}

export function wrong(what: string, { resource }: { readonly resource: string }): GuardError {
  return new GuardError('invalid-option', `guard "${resource}": ${what}`, { resource });
}
