// The options of the guard for Redis; what is wrong with them is said before anything is sent.
import { checkMs, invalid } from '../options.ts';
import type { Wait } from './line.ts';

export interface RedisGuardOptions {
  /** The name of what is guarded: non-empty, at most 1,024 bytes of UTF-8. */
  readonly resource: string;
  /** Reject tokens that never claimed with `unclaimed`. Default `false`. */
  readonly requireClaim?: boolean | undefined;
  /**
   * What to do where the guard's record does not exist. `refuse`: every verb fails with `not-migrated` until an
   * operator calls `create()`. `create`: the next verb creates it, so that a lost record (flushed, evicted,
   * restored, failed over) goes unnoticed and the next token passes, **also a stale one**. Default `refuse`.
   */
  readonly missing?: 'refuse' | 'create' | undefined;
  /** What the record's key begins with, without braces. Default `lockkeeper:guard:`. */
  readonly prefix?: string | undefined;
  /**
   * The hash tag of the record and of every key in an effect, without braces: for keys that have one already.
   * Default: the resource, with `%`, `{` and `}` percent-encoded.
   */
  readonly hashTag?: string | undefined;
  /**
   * `same`: keys of an effect share the record's hash tag, so that it works on Redis Cluster too. `any`: any
   * keys, on a server that is no cluster and will never be one. Default `same`.
   */
  readonly keySlots?: 'same' | 'any' | undefined;
  /**
   * Wait until `replicas` have acknowledged each claim, seal, rebase and run, at most `timeoutMs` (default
   * 1,000); `unknown` where fewer did. It narrows what a fail-over can forget, and does not close it. Redis
   * serves nothing else on the connection meanwhile, so give such a guard a client of its own. Not on clusters.
   */
  readonly wait?: { readonly replicas: number; readonly timeoutMs?: number | undefined } | undefined;
  /**
   * How long a call waits for a connection (then `unavailable`), and how long for the reply (then `unknown`).
   * Default 10,000 ms.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * What to do where the server may evict any key (`maxmemory-policy allkeys-*` with a `maxmemory`), the
   * guard's record among them. Looked at once a client; skipped where it may not be read. Default `refuse`.
   */
  readonly eviction?: 'refuse' | 'accept' | undefined;
}

export function checkChoice<T extends string>(
  field: string,
  value: unknown,
  choices: readonly [T, ...T[]],
): T {
  if (value === undefined) return choices[0];
  const choice = choices.find((each) => each === value);
  if (choice !== undefined) return choice;
  throw invalid(field, value, `expected ${choices.map((each) => JSON.stringify(each)).join(' or ')}`);
}

export function checkWait(value: RedisGuardOptions['wait'], isCluster: boolean): Wait | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'object' || value === null)
    throw invalid('wait', value, 'expected { replicas, timeoutMs }');
  const { replicas } = value;
  if (!Number.isInteger(replicas) || replicas < 1 || replicas > 100)
    throw invalid('wait.replicas', replicas, 'expected a whole number from 1 to 100');
  // A cluster client has a connection to each node and does not tell which one carried a script.
  if (isCluster) throw invalid('wait', value, 'expected none on a cluster');
  return { replicas, timeoutMs: checkMs('wait.timeoutMs', value.timeoutMs, 1_000) };
}
