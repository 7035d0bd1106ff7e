import { GuardError } from './errors.ts';

/** The largest revision etcd can issue: revisions are signed 64-bit integers. */
const MAX_REVISION = 2n ** 63n - 1n;
const ID = /^[A-Za-z0-9_-]{1,64}$/;
const DECIMAL = /^[1-9][0-9]{0,18}$/;
/** What the text form of a reader's token ends with. */
const SHARED = 'shared';

/** The parts that identify one grant, and its mode. */
export interface FencingTokenParts {
  /** Which revision history issued the token: the value of `<namespace>/lineage` in etcd. */
  readonly lineage: string;
  /**
   * etcd's ModRevision of the lock's key, 1 to 2^63 − 1. A `bigint`, because values above 2^53 must
   * survive; a decimal string is accepted and checked, a `number` is not.
   */
  readonly revision: bigint | string;
  /** The random id of the acquisition that was granted. */
  readonly acquisition: string;
  /** Whether it was granted in shared mode, to a reader of a read/write lock. Default `false`: exclusive. */
  readonly shared?: boolean | undefined;
}

/**
 * A fencing token: immutable, bound to one grant for ever.
 *
 * Within one lock name and one lineage, `revision` rises strictly in the order in which etcd granted the
 * lock (etcd assigns revisions in one total order). Tokens of two names, or of two lineages, are not
 * comparable.
 *
 * Everywhere outside memory (JSON, headers, SQL text, environment) a token is the one line of text that
 * {@link FencingToken.toString} gives; `JSON.stringify` uses it too.
 */
export class FencingToken {
  readonly lineage: string;
  readonly revision: bigint;
  readonly acquisition: string;
  /** Readers fence writers and are fenced by writers, but not by each other. */
  readonly shared: boolean;

  /** @throws {@link GuardError} `invalid-token`, naming the part and the value. */
  constructor(parts: FencingTokenParts) {
    this.lineage = checkId('lineage', parts.lineage);
    this.revision = checkRevision(parts.revision);
    this.acquisition = checkId('acquisition', parts.acquisition);
    this.shared = checkMode(parts.shared);
    Object.freeze(this);
  }

  /**
   * Reads the text form, `lineage:revision:acquisition`, with `:shared` behind it for a reader's token.
   * @throws {@link GuardError} `invalid-token` for anything else.
   */
  static parse(text: string): FencingToken {
    const [lineage, revision, acquisition, mode, ...rest] = typeof text === 'string' ? text.split(':') : [];
    const known = (mode === undefined || mode === SHARED) && rest.length === 0;
    if (lineage === undefined || revision === undefined || acquisition === undefined || !known) {
      throw invalid('token', text, 'expected "lineage:revision:acquisition", or that and ":shared"');
    }
    return new FencingToken({ lineage, revision, acquisition, shared: mode === SHARED });
  }

  /** The text form, `lineage:revision:acquisition` or `lineage:revision:acquisition:shared`; the revision in decimal. */
  toString(): string {
    const grant = `${this.lineage}:${this.revision}:${this.acquisition}`;
    return this.shared ? `${grant}:${SHARED}` : grant;
  }

  toJSON(): string {
    return this.toString();
  }
}

/**
 * How a token stands to another one:
 * - `below`, `above`: an older, a newer grant of the same lineage;
 * - `same`: the same grant in the same mode. A writer that downgraded goes on as a reader of the same grant: its
 *   shared token is above its exclusive one;
 * - `conflicting`: the same revision but another acquisition, which only a rewritten history can produce
 *   (a restored snapshot issues revisions twice);
 * - `foreign`: another lineage, not comparable.
 */
export type TokenOrder = 'below' | 'same' | 'above' | 'conflicting' | 'foreign';

/** How `a` stands to `b`. Only meaningful for tokens of one lock name: the caller vouches for that. */
export function compareTokens(a: FencingToken, b: FencingToken): TokenOrder {
  if (a.lineage !== b.lineage) return 'foreign';
  if (a.revision < b.revision) return 'below';
  if (a.revision > b.revision) return 'above';
  if (a.acquisition !== b.acquisition) return 'conflicting';
  if (a.shared === b.shared) return 'same';
  return a.shared ? 'above' : 'below';
}

function checkId(field: string, value: unknown): string {
  if (typeof value === 'string' && ID.test(value)) return value;
  throw invalid(field, value, 'expected 1 to 64 characters of A-Z a-z 0-9 _ -');
}

function checkRevision(value: unknown): bigint {
  const revision = typeof value === 'string' && DECIMAL.test(value) ? BigInt(value) : value;
  if (typeof revision === 'bigint' && revision >= 1n && revision <= MAX_REVISION) return revision;
  throw invalid('revision', value, 'expected a bigint or a decimal string from 1 to 2^63-1');
}

function checkMode(value: unknown): boolean {
  if (value === undefined || typeof value === 'boolean') return value === true;
  throw invalid('shared', value, 'expected true or false');
}

function invalid(field: string, value: unknown, why: string): GuardError {
  const shown = typeof value === 'string' ? JSON.stringify(value.slice(0, 200)) : describe(value);
  return new GuardError('invalid-token', `fencing token: ${field} is ${shown}; ${why}`);
}

/** Of any value, also of one without a prototype, which has no `toString`. */
function describe(value: unknown): string {
  if (typeof value === 'object' || typeof value === 'function') return Object.prototype.toString.call(value);
  return `${typeof value} ${String(value)}`;
}
