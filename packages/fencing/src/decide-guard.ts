// Which token a guard accepts, as pure functions: the one place where this is decided.
import { GuardError } from './errors.ts';
import { compareTokens, type FencingToken } from './fencing-token.ts';
import type { GuardMark, GuardState } from './guard.ts';

export type GuardVerb = 'claim' | 'run' | 'seal';

/** `accept` with the state to store (`undefined`: leave it as it is), or `reject` with the reason. */
export type GuardDecision =
  | { readonly verdict: 'accept'; readonly next: GuardState | undefined }
  | { readonly verdict: 'reject'; readonly error: GuardError };

/**
 * The table that every guard implements, as a pure function. A storage that decides in its own language
 * (SQL, Lua) must agree with it; the contract suite checks that. A token is compared with the highest one accepted
 * ({@link compareTokens}):
 *
 * | verb | token below | same | above, or no state yet |
 * |---|---|---|---|
 * | `claim` | `stale-token` | ok, unless sealed | advance, unseal |
 * | `run` | `stale-token` | ok, unless sealed | advance; with `requireClaim`: `unclaimed` |
 * | `seal` | no-op | sealed | advance and seal |
 *
 * **Readers do not fence each other.** A reader's token below another reader's is compared with the last writer's
 * instead, and never moves the state:
 *
 * | verb | below the last writer's | above it, or there was none |
 * |---|---|---|
 * | `claim`, `run` | `stale-token` | ok |
 * | `seal` | no-op | no-op |
 *
 * So a writer passes iff its token is not below the last writer's and above every reader's, a reader iff its token is
 * above the last writer's, and a reader's claim fences older writers only. A writer that downgraded is a reader with
 * the same revision; one that was sealed as a writer is refused as a reader too (`sealed`).
 *
 * Equal revision, other acquisition: `conflicting-token`. Other lineage: `foreign-lineage`.
 */
export function decideGuard(
  verb: GuardVerb,
  resource: string,
  state: GuardState | undefined,
  token: FencingToken,
  options: { readonly requireClaim?: boolean | undefined } = {},
): GuardDecision {
  const beside = state !== undefined && isBelowAnotherReader(token, state.token);
  const mark = beside ? state.writer : state;
  const reject = (
    code: 'stale-token' | 'sealed' | 'conflicting-token' | 'foreign-lineage' | 'unclaimed',
  ): GuardDecision => ({ verdict: 'reject', error: refusal(code, resource, token, mark?.token) });
  const order = mark === undefined ? 'above' : compareTokens(token, mark.token);
  switch (order) {
    case 'foreign':
      return reject('foreign-lineage');
    case 'conflicting':
      return reject('conflicting-token');
    case 'below':
      return verb === 'seal' ? UNCHANGED : reject('stale-token');
    case 'same':
      if (verb === 'seal') return accept({ token, sealed: true }, state?.writer);
      return mark?.sealed === true ? reject('sealed') : UNCHANGED;
    case 'above':
      if (verb !== 'seal' && mark?.sealed === true && isSameGrant(token, mark.token)) return reject('sealed');
      if (beside) return UNCHANGED;
      if (verb === 'run' && options.requireClaim === true) return reject('unclaimed');
      return accept({ token, sealed: verb === 'seal' }, token.shared ? lastWriter(state) : undefined);
  }
}

const UNCHANGED: GuardDecision = { verdict: 'accept', next: undefined };

function accept({ token, sealed }: GuardMark, writer: GuardMark | undefined): GuardDecision {
  return { verdict: 'accept', next: writer === undefined ? { token, sealed } : { token, sealed, writer } };
}

function isBelowAnotherReader(token: FencingToken, highest: FencingToken): boolean {
  return token.shared && highest.shared && compareTokens(token, highest) === 'below';
}

/** One grant in two modes: a writer, and the reader that it became. */
function isSameGrant(a: FencingToken, b: FencingToken): boolean {
  return a.revision === b.revision && a.acquisition === b.acquisition;
}

function lastWriter(state: GuardState | undefined): GuardMark | undefined {
  if (state === undefined || state.token.shared) return state?.writer;
  return { token: state.token, sealed: state.sealed };
}

/**
 * {@link GuardAdmin.rebase} as a pure function: the one way over the border between two lineages. Only the
 * state that was confirmed may be replaced, so two operators cannot undo each other's work.
 */
export function decideRebase(
  resource: string,
  state: GuardState | undefined,
  token: FencingToken,
  from: FencingToken,
): GuardDecision {
  if (token.lineage === from.lineage) {
    const what = `from is ${from}, of the same lineage as the token ${token}`;
    const error = new GuardError('invalid-option', `guard "${resource}": ${what}; claim instead`, {
      resource,
      token,
    });
    return { verdict: 'reject', error };
  }
  const at = (expected: FencingToken) => state !== undefined && `${state.token}` === `${expected}`;
  if (at(token)) return { verdict: 'accept', next: undefined };
  if (at(from)) return { verdict: 'accept', next: { token, sealed: false } };
  return { verdict: 'reject', error: refusal('not-confirmed', resource, token, state?.token) };
}

const REASONS = {
  'stale-token': 'a newer token is in force',
  sealed: 'this hold was released and its token sealed',
  'conflicting-token':
    'the same revision was granted to another acquisition, so the etcd history was rewritten',
  'foreign-lineage': 'the token belongs to another etcd history; rebase the guard to adopt it',
  unclaimed: 'this token never claimed the resource, and here it has to',
  'not-confirmed': 'the state is not the one that was confirmed; inspect the guard again',
} as const;

/** The error of a refused token, worded alike in every storage. */
export function refusal(
  code: keyof typeof REASONS,
  resource: string,
  token: FencingToken,
  current: FencingToken | undefined,
): GuardError {
  const against = current === undefined ? '' : ` (in force: ${current})`;
  return new GuardError(code, `guard "${resource}" refused token ${token}: ${REASONS[code]}${against}`, {
    resource,
    token,
    current,
  });
}
